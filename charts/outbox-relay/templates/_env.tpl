{{/*
The container's env: the chart's own variables, then settings, files and env. A name is there once, the
last one wins and keeps the first one's place: a server-side apply refuses an env with a name twice.
*/}}
{{- define "outbox-relay.env" -}}
{{- include "outbox-relay.checkSettings" . -}}
{{- $entries := list (dict "name" "OUTBOX_HTTP_ADDR" "value" (printf ":%d" (int .Values.http.port))) -}}
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
{{- range concat $entries .Values.env -}}
{{- $names = append $names .name -}}
{{- $_ := set $byName .name . -}}
{{- end -}}
{{- $merged := list -}}
{{- range uniq $names -}}
{{- $merged = append $merged (get $byName .) -}}
{{- end -}}
{{- toYaml $merged -}}
{{- end -}}

{{/* What the relay would refuse at start is refused before anything is deployed. */}}
{{- define "outbox-relay.checkSettings" -}}
{{- $given := dict -}}
{{- range $name, $value := .Values.settings -}}
{{- if not (kindIs "invalid" $value) -}}{{- $_ := set $given $name true -}}{{- end -}}
{{- end -}}
{{- range .Values.env -}}{{- $_ := set $given .name true -}}{{- end -}}
{{- range $name, $source := .Values.files -}}
{{- if hasKey $given $name -}}
{{- fail (printf "outbox-relay: %s is both in files and in settings or env, the relay takes only one of them" $name) -}}
{{- end -}}
{{- $_ := set $given $name true -}}
{{- end -}}
{{- range list "OUTBOX_HTTP_ADDR" "OUTBOX_HTTP_ADDR_FILE" -}}
{{- if hasKey $given . -}}
{{- fail (printf "outbox-relay: set http.port instead of %s, the probes need it" .) -}}
{{- end -}}
{{- end -}}
{{- range list "OUTBOX_DATABASE_URL" "OUTBOX_PUBLISH_URL" -}}
{{- $destinations := and (eq . "OUTBOX_PUBLISH_URL") (hasKey $given "OUTBOX_DESTINATIONS") -}}
{{- if not (or (hasKey $given .) (hasKey $given (printf "%s_FILE" .)) $destinations) -}}
{{- fail (printf "outbox-relay: %s is missing: give it in files (from a Secret), settings or env" .) -}}
{{- end -}}
{{- end -}}
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
