{{/*
Settings that the relay would refuse at start are refused before anything is deployed. Only the relay's own container checks them,
so that Helm names its template. The dictionaries hold a variable's text by its name; the text is "" where it comes from elsewhere (a
file, valueFrom).
*/}}
{{- define "outbox-relay.check" -}}
{{- if not .Values.image.repository -}}
{{- fail "outbox-relay: image.repository is missing: name the registry and repository of the image, such as registry.example.com/outbox-relay" -}}
{{- end -}}
{{- $given := dict -}}
{{- range $name, $value := .Values.settings -}}
{{- if not (kindIs "invalid" $value) -}}{{- $_ := set $given $name (toString $value) -}}{{- end -}}
{{- end -}}
{{- range .Values.extraEnv -}}{{- $_ := set $given .name (.value | default "") -}}{{- end -}}
{{- range $name, $source := .Values.files -}}
{{- if hasKey $given $name -}}
{{- fail (printf "outbox-relay: %s is both in files and in settings or extraEnv, the relay takes only one of them" $name) -}}
{{- end -}}
{{- $_ := set $given (printf "%s_FILE" $name) "" -}}
{{- end -}}
{{- range $name, $value := dict "OUTBOX_HTTP_ADDR" "http.port" "OUTBOX_METRICS_ADDR" "http.metricsPort" -}}
{{- if or (hasKey $given $name) (hasKey $given (printf "%s_FILE" $name)) -}}
{{- fail (printf "outbox-relay: set %s instead of %s, probes and monitors need it" $value $name) -}}
{{- end -}}
{{- end -}}
{{- if .Values.checkSettings -}}
{{- include "outbox-relay.checkNames" (dict "given" $given "envFrom" .Values.envFrom "lines" (.Files.Lines "files/settings.txt") "version" .Chart.AppVersion "home" .Chart.Home) -}}
{{- end -}}
{{- range list "OUTBOX_DATABASE_URL" "OUTBOX_PUBLISH_URL" -}}
{{- $destinations := and (eq . "OUTBOX_PUBLISH_URL") (or (hasKey $given "OUTBOX_DESTINATIONS") (hasKey $given "OUTBOX_DESTINATIONS_FILE")) -}}
{{- if not (or (hasKey $given .) (hasKey $given (printf "%s_FILE" .)) $destinations $.Values.envFrom) -}}
{{- fail (printf "outbox-relay: %s is missing: give it in files (from a Secret), settings, extraEnv or envFrom" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A variable with our prefix is a setting of this version. */}}
{{- define "outbox-relay.checkNames" -}}
{{- $known := dict -}}
{{- $endings := list -}}
{{- range compact .lines -}}
{{- if hasPrefix "OUTBOX_DESTINATION_<NAME>_" . -}}
{{- $endings = append $endings (trimPrefix "OUTBOX_DESTINATION_<NAME>_" .) -}}
{{- else -}}
{{- $_ := set $known . true -}}
{{- end -}}
{{- end -}}
{{- $destinations := "" -}}
{{- with get .given "OUTBOX_DESTINATIONS" -}}
{{- $destinations = regexReplaceAll "[ ,]+" (trim . | upper | replace "-" "_") "|" -}}
{{- end -}}
{{- if and (not $destinations) (or .envFrom (hasKey .given "OUTBOX_DESTINATIONS_FILE") (hasKey .given "OUTBOX_DESTINATIONS")) -}}
{{- $destinations = "[A-Z][A-Z0-9_]*" -}}{{/* their names are not known here */}}
{{- end -}}
{{- $ofDestination := printf "^OUTBOX_DESTINATION_(%s)_(%s)$" $destinations (join "|" $endings) -}}
{{- range $name, $_ := .given -}}
{{- $setting := trimSuffix "_FILE" $name -}}
{{- if and (hasPrefix "OUTBOX_" $name) (not (hasKey $known $setting)) (not (regexMatch $ofDestination $setting)) -}}
{{- if hasPrefix "OUTBOX_DESTINATION_" $name -}}
{{- fail (printf "outbox-relay: %s is not a setting of a destination in OUTBOX_DESTINATIONS (%s)" $name (get $.given "OUTBOX_DESTINATIONS" | default "not set")) -}}
{{- end -}}
{{- $advice := include "outbox-relay.near" (dict "name" $setting "known" (keys $known | sortAlpha)) -}}
{{- if $advice -}}
{{- $advice = printf "did you mean %s%s?" $advice (ternary "_FILE" "" (ne $setting $name)) -}}
{{- else -}}
{{- $advice = printf "%s/blob/v%s/docs/settings.md lists them" $.home $.version -}}
{{- end -}}
{{- fail (printf "outbox-relay: %s is not a setting of version %s: %s If the image is newer than the chart, set checkSettings to false" $name $.version $advice) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
Those of the known names that differ from a name in one letter (wrong, missing or too many, an underscore among them), or only in the
order of its letters.
*/}}
{{- define "outbox-relay.near" -}}
{{- $name := .name -}}
{{- $forms := list -}}
{{- range $i := until (add1 (len $name) | int) -}}
{{- $before := substr 0 $i $name -}}
{{- $forms = append $forms (printf "%s.%s" $before (substr $i (len $name) $name)) -}}
{{- if lt $i (len $name) -}}
{{- $forms = append $forms (printf "%s.?%s" $before (substr (add1 $i | int) (len $name) $name)) -}}
{{- end -}}
{{- end -}}
{{- $form := printf "^(%s)$" (join "|" $forms) -}}
{{- $letters := splitList "" $name | sortAlpha | join "" -}}
{{- $near := list -}}
{{- range .known -}}
{{- if or (regexMatch $form .) (eq $letters (splitList "" . | sortAlpha | join "")) -}}
{{- $near = append $near . -}}
{{- end -}}
{{- end -}}
{{- join " or " $near -}}
{{- end -}}

{{/* The pod's grace period is longer than a clean stop may take. For the pod of a sidecar, the application has to ensure this. */}}
{{- define "outbox-relay.checkGracePeriod" -}}
{{- $timeout := get .Values.settings "OUTBOX_SHUTDOWN_TIMEOUT" | toString -}}
{{- range .Values.extraEnv -}}
{{- if eq .name "OUTBOX_SHUTDOWN_TIMEOUT" -}}{{- $timeout = .value | default "" -}}{{- end -}}
{{- end -}}
{{- $timeout = $timeout | default "25s" -}}
{{- $seconds := include "outbox-relay.seconds" $timeout | float64 -}}
{{- if ge $seconds (float64 .Values.terminationGracePeriodSeconds) -}}
{{- fail (printf "outbox-relay: terminationGracePeriodSeconds is %d, OUTBOX_SHUTDOWN_TIMEOUT %s: a stop is cut off, and rows are published again, unless the grace period is longer" (int .Values.terminationGracePeriodSeconds) $timeout) -}}
{{- end -}}
{{- end -}}

{{/* The seconds of a duration such as 1m30s. */}}
{{- define "outbox-relay.seconds" -}}
{{- $units := dict "ns" 1e-9 "us" 1e-6 "µs" 1e-6 "ms" 1e-3 "s" 1.0 "m" 60.0 "h" 3600.0 "d" 86400.0 -}}
{{- $total := 0.0 -}}
{{- range regexFindAll "[0-9.]+[a-zµ]+" . -1 -}}
{{- $unit := regexReplaceAll "^[0-9.]+" . "" -}}
{{- $total = addf $total (mulf (float64 (trimSuffix $unit .)) (float64 (get $units $unit))) -}}
{{- end -}}
{{- $total -}}
{{- end -}}
