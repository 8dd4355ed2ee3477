{{/*
For the chart of an application that has this chart as a dependency.

outbox-relay.sidecar is an item of initContainers. With restartPolicy Always it is a native sidecar: it
starts before the application, stops after it, and does not keep a Job from ending. It has no readiness
probe: a broker that is down must not take the application out of its Service.

outbox-relay.container is an item of containers, for sidecar.native=false. The value decides which of the
two is empty, so a chart may include both.

outbox-relay.volumes are items of volumes; it is empty when there are none.

All take the application chart's context, or, for a dependency under an alias, the dependency's:
include "outbox-relay.sidecar" (index .Subcharts "alias").
*/}}
{{- define "outbox-relay.sidecar" -}}
{{- $relay := . -}}
{{- with index (.Subcharts | default dict) "outbox-relay" -}}{{- $relay = . -}}{{- end -}}
{{- if $relay.Values.sidecar.native -}}
{{- if semverCompare "<1.29.0-0" .Capabilities.KubeVersion.Version -}}
{{- fail (printf "outbox-relay: native sidecars need Kubernetes 1.29, this is %s: set sidecar.native to false and include outbox-relay.container among the containers" .Capabilities.KubeVersion.Version) -}}
{{- end -}}
- {{ include "outbox-relay.base" $relay | nindent 2 | trim }}
  restartPolicy: Always
{{- end -}}
{{- end -}}

{{- define "outbox-relay.container" -}}
{{- $relay := . -}}
{{- with index (.Subcharts | default dict) "outbox-relay" -}}{{- $relay = . -}}{{- end -}}
{{- if not $relay.Values.sidecar.native -}}
- {{ include "outbox-relay.base" $relay | nindent 2 | trim }}
{{- end -}}
{{- end -}}

{{- define "outbox-relay.volumes" -}}
{{- $relay := . -}}
{{- with index (.Subcharts | default dict) "outbox-relay" -}}{{- $relay = . -}}{{- end -}}
{{- include "outbox-relay.podVolumes" $relay -}}
{{- end -}}
