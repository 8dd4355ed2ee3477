{{/*
The container's env: the chart's own variables, then settings, files and extraEnv. Each name occurs once: the
last value wins and keeps the place of the first, because a server-side apply refuses an env with a name twice.
*/}}
{{- define "outbox-relay.env" -}}
{{- $entries := list (dict "name" "OUTBOX_HTTP_ADDR" "value" (printf ":%d" (int .Values.http.port))) -}}
{{- with .Values.http.metricsPort -}}
{{- $entries = append $entries (dict "name" "OUTBOX_METRICS_ADDR" "value" (printf ":%d" (int .))) -}}
{{- end -}}
{{- with include "outbox-relay.goMemoryLimit" . -}}
{{- $entries = append $entries (dict "name" "GOMEMLIMIT" "value" .) -}}
{{- end -}}
{{- range $name, $value := .Values.settings -}}
{{- if kindIs "float64" $value -}}{{- $value = int64 $value -}}{{- end -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $entries = append $entries (dict "name" $name "value" (toString $value)) -}}
{{- end -}}
{{- end -}}
{{- range $name, $_ := .Values.files -}}
{{- $entries = append $entries (dict "name" (printf "%s_FILE" $name) "value" (printf "/etc/outbox-relay/%s" $name)) -}}
{{- end -}}
{{- $names := list -}}
{{- $byName := dict -}}
{{- range concat $entries .Values.extraEnv -}}
{{- $names = append $names .name -}}
{{- $_ := set $byName .name . -}}
{{- end -}}
{{- $merged := list -}}
{{- range uniq $names -}}
{{- $merged = append $merged (get $byName .) -}}
{{- end -}}
{{- toYaml $merged -}}
{{- end -}}

{{/* Nine tenths of the memory limit, so that the collector works harder before the kernel kills. */}}
{{- define "outbox-relay.goMemoryLimit" -}}
{{- $limit := dig "limits" "memory" "" .Values.resources | toString -}}
{{- $units := dict "" 1 "k" 1e3 "M" 1e6 "G" 1e9 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 -}}
{{- $unit := regexReplaceAll "^[0-9.]+" $limit "" -}}
{{- if and $limit (hasKey $units $unit) -}}
{{- $bytes := mulf (float64 (trimSuffix $unit $limit)) (float64 (get $units $unit)) 0.9 -}}
{{- printf "%dMiB" (int64 (divf $bytes 1048576)) -}}
{{- end -}}
{{- end -}}
