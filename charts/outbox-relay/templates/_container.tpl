{{/* The container as both modes have it. */}}
{{- define "outbox-relay.base" -}}
{{- include "outbox-relay.check" . -}}
name: outbox-relay
image: {{ include "outbox-relay.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args:
  {{- toYaml .Values.args | nindent 2 }}
env:
  {{- include "outbox-relay.env" . | nindent 2 }}
{{- with .Values.envFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
ports:
  {{- with .Values.http.metricsPort }}
  - name: relay-health
    containerPort: {{ $.Values.http.port }}
    protocol: TCP
  {{- end }}
  - name: relay-metrics
    containerPort: {{ .Values.http.metricsPort | default .Values.http.port }}
    protocol: TCP
startupProbe:
  httpGet: {{ include "outbox-relay.probe" (dict "path" "/livez" "http" .Values.http) }}
  {{- toYaml .Values.startupProbe | nindent 2 }}
livenessProbe:
  httpGet: {{ include "outbox-relay.probe" (dict "path" "/livez" "http" .Values.http) }}
  {{- toYaml .Values.livenessProbe | nindent 2 }}
{{- with .Values.lifecycle }}
lifecycle:
  {{- toYaml . | nindent 2 }}
{{- end }}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  {{- toYaml .Values.securityContext | nindent 2 }}
{{- with include "outbox-relay.volumeMounts" . }}
volumeMounts:
  {{- . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "outbox-relay.probe" -}}
{path: {{ .path }}, port: {{ ternary "relay-health" "relay-metrics" (ne (int .http.metricsPort) 0) }}
{{- if eq .http.scheme "HTTPS" }}, scheme: HTTPS{{ end }}}
{{- end -}}

{{/* The container of a command that ends, such as doctor: the relay's settings, and neither port nor probe. */}}
{{- define "outbox-relay.command" -}}
image: {{ include "outbox-relay.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
env:
  {{- include "outbox-relay.env" . | nindent 2 }}
{{- with .Values.envFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  {{- toYaml .Values.securityContext | nindent 2 }}
{{- with include "outbox-relay.volumeMounts" . }}
volumeMounts:
  {{- . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* What the pod of such a command has beside its container. */}}
{{- define "outbox-relay.commandPod" -}}
restartPolicy: Never
{{- if eq .Values.mode "standalone" }}
serviceAccountName: {{ include "outbox-relay.serviceAccountName" . }}
{{- end }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with include "outbox-relay.podVolumes" . }}
volumes:
  {{- . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "outbox-relay.volumeMounts" -}}
{{- $mounts := .Values.extraVolumeMounts -}}
{{- if .Values.files -}}
{{- $mounts = prepend $mounts (dict "name" "outbox-relay-files" "mountPath" "/etc/outbox-relay" "readOnly" true) -}}
{{- end -}}
{{- if $mounts -}}{{- toYaml $mounts -}}{{- end -}}
{{- end -}}

{{/* One volume with a file for each setting: Kubernetes renews it when a Secret changes. */}}
{{- define "outbox-relay.podVolumes" -}}
{{- $volumes := .Values.extraVolumes -}}
{{- if .Values.files -}}
{{- $sources := list -}}
{{- range $name, $file := .Values.files -}}
{{- $items := list (dict "key" $file.key "path" $name) -}}
{{- if $file.secret -}}
{{- $sources = append $sources (dict "secret" (dict "name" $file.secret "items" $items)) -}}
{{- else -}}
{{- $sources = append $sources (dict "configMap" (dict "name" $file.configMap "items" $items)) -}}
{{- end -}}
{{- end -}}
{{- $volumes = prepend $volumes (dict "name" "outbox-relay-files" "projected" (dict "defaultMode" 0o444 "sources" $sources)) -}}
{{- end -}}
{{- if $volumes -}}{{- toYaml $volumes -}}{{- end -}}
{{- end -}}
