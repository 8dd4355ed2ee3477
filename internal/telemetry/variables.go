package telemetry

import (
	"log/slog"
	"regexp"
	"slices"
	"strings"
)

// followed are the standard variables that have an effect, without OTEL_.
var followed = regexp.MustCompile(`^(SDK_DISABLED|SERVICE_NAME|RESOURCE_ATTRIBUTES|TRACES_SAMPLER(_ARG)?` +
	`|ATTRIBUTE_COUNT_LIMIT|ATTRIBUTE_VALUE_LENGTH_LIMIT|(EVENT|LINK)_ATTRIBUTE_COUNT_LIMIT` +
	`|SPAN_(ATTRIBUTE_COUNT|ATTRIBUTE_VALUE_DEPTH|ATTRIBUTE_VALUE_LENGTH|EVENT_COUNT|LINK_COUNT)_LIMIT` +
	`|BSP_(SCHEDULE_DELAY|EXPORT_TIMEOUT|MAX_QUEUE_SIZE|MAX_EXPORT_BATCH_SIZE)|METRICS_EXEMPLAR_FILTER` +
	`|EXPORTER_OTLP_(TRACES_)?(ENDPOINT|HEADERS|TIMEOUT|COMPRESSION|INSECURE|(CLIENT_)?CERTIFICATE|CLIENT_KEY))$`)

const pair = ` *[^=,: ]+ *=([^,%]|%[0-9a-fA-F]{2})*`

// formats say, of the variables whose names match, which values the SDK can read, and how to write them.
var formats = []struct {
	names, values *regexp.Regexp
	remedy        string
}{{
	regexp.MustCompile(`(HEADERS|RESOURCE_ATTRIBUTES)$`),
	regexp.MustCompile("^" + pair + "(," + pair + ")*$"),
	"write name=value,name=value, with special characters of values percent-encoded",
}, {
	regexp.MustCompile(`ENDPOINT$`), regexp.MustCompile(`^https?://[^/?#\s]`),
	"write http://host:4318 or https://host:4318",
}}

// satisfied are variables that have no effect or turn traces off, except with these values.
var satisfied = map[string][]string{
	"TRACES_EXPORTER": append(exporters, "none"), "EXPORTER_OTLP_PROTOCOL": protocols,
	"EXPORTER_OTLP_TRACES_PROTOCOL": protocols, "METRICS_EXPORTER": {"prometheus"},
	"LOGS_EXPORTER": {"none", "console"},
	"PROPAGATORS":   {"tracecontext", "tracecontext,baggage"},
}

// checkVariables logs which variables cannot be read and which have no effect. It shows no value, which may contain a
// secret.
func checkVariables(environ []string, logger *slog.Logger) {
	var ignored []string
	endpoint := false
	for _, entry := range slices.Sorted(slices.Values(environ)) {
		variable, value, _ := strings.Cut(entry, "=")
		name, standard := strings.CutPrefix(variable, "OTEL_")
		if value = strings.TrimSpace(value); !standard || value == "" || strings.HasPrefix(name, "GO_X_") ||
			strings.HasPrefix(name, "RESOURCE_ATTRIBUTES_") { // of which an operator makes OTEL_RESOURCE_ATTRIBUTES
			continue
		}
		// An endpoint is sorted before the exporter.
		endpoint = endpoint || name == "EXPORTER_OTLP_ENDPOINT" || name == "EXPORTER_OTLP_TRACES_ENDPOINT"
		switch {
		case followed.MatchString(name):
			for _, f := range formats {
				if f.names.MatchString(name) && !f.values.MatchString(value) {
					logger.Warn("a variable of OpenTelemetry cannot be read", "variable", variable, "remedy", f.remedy)
				}
			}
		case !slices.Contains(satisfied[name], value), name == "TRACES_EXPORTER" && value == "otlp" && !endpoint:
			ignored = append(ignored, variable)
		}
	}
	if len(ignored) > 0 {
		logger.Warn("variables of OpenTelemetry have no effect", "variables", strings.Join(ignored, ", "),
			"reason", "only traces are exported, and only over OTLP with HTTP to OTEL_EXPORTER_OTLP_ENDPOINT (usually "+
				"port 4318); Prometheus scrapes the metrics from /metrics")
	}
}
