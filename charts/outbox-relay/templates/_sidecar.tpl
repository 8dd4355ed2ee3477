{{/*
For the chart of an application that has this chart as a dependency.

outbox-relay.sidecar is an item of initContainers. With restartPolicy Always it is a native sidecar: it
starts before the application, stops after it, and does not keep a Job from ending. It has no readiness
probe: a broker that is down must not take the application out of its Service.

outbox-relay.volumes are items of volumes; it is empty when there are none.

Both take the application chart's context, or, for a dependency under an alias, the dependency's:
include "outbox-relay.sidecar" (index .Subcharts "alias").
*/}}
{{- define "outbox-relay.sidecar" -}}
{{- $relay := . -}}
{{- with index (.Subcharts | default dict) "outbox-relay" -}}{{- $relay = . -}}{{- end -}}
- {{ include "outbox-relay.container" $relay | nindent 2 | trim }}
  restartPolicy: Always
{{- end -}}

{{- define "outbox-relay.volumes" -}}
{{- $relay := . -}}
{{- with index (.Subcharts | default dict) "outbox-relay" -}}{{- $relay = . -}}{{- end -}}
{{- include "outbox-relay.podVolumes" $relay -}}
{{- end -}}
