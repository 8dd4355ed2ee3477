package telemetry

import (
	"log/slog"
	"net/url"
	"slices"
	"strings"
)

// followed are the standard variables that have an effect, without OTEL_. Those of an exporter have an effect with and
// without TRACES_ in their names.
var (
	followed = strings.Fields(`SDK_DISABLED SERVICE_NAME RESOURCE_ATTRIBUTES TRACES_SAMPLER
		TRACES_SAMPLER_ARG ATTRIBUTE_COUNT_LIMIT ATTRIBUTE_VALUE_LENGTH_LIMIT EVENT_ATTRIBUTE_COUNT_LIMIT
		LINK_ATTRIBUTE_COUNT_LIMIT SPAN_ATTRIBUTE_COUNT_LIMIT SPAN_ATTRIBUTE_VALUE_DEPTH_LIMIT
		SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT SPAN_EVENT_COUNT_LIMIT SPAN_LINK_COUNT_LIMIT BSP_SCHEDULE_DELAY
		BSP_EXPORT_TIMEOUT BSP_MAX_QUEUE_SIZE BSP_MAX_EXPORT_BATCH_SIZE METRICS_EXEMPLAR_FILTER`)
	followedOfExporter = strings.Fields(`ENDPOINT HEADERS TIMEOUT COMPRESSION INSECURE CERTIFICATE
		CLIENT_CERTIFICATE CLIENT_KEY`)
)

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
			strings.HasPrefix(name, "RESOURCE_ATTRIBUTES_") { // an operator's, of which it makes OTEL_RESOURCE_ATTRIBUTES
			continue
		}
		ofExporter, is := strings.CutPrefix(name, "EXPORTER_OTLP_")
		if ofExporter = strings.TrimPrefix(ofExporter, "TRACES_"); !is {
			ofExporter = ""
		}
		endpoint = endpoint || ofExporter == "ENDPOINT" // which is sorted before the exporter
		switch {
		case slices.Contains(followedOfExporter, ofExporter), slices.Contains(followed, name):
			if remedy := unreadable(name, value); remedy != "" {
				logger.Warn("a variable of OpenTelemetry cannot be read", "variable", variable, "remedy", remedy)
			}
		case !slices.Contains(satisfied[name], value), name == "TRACES_EXPORTER" && value == "otlp" && !endpoint:
			ignored = append(ignored, variable)
		}
	}
	if len(ignored) > 0 {
		logger.Warn("variables of OpenTelemetry have no effect", "variables", strings.Join(ignored, ", "),
			"reason", "only traces are exported, and only over OTLP with HTTP to OTEL_EXPORTER_OTLP_ENDPOINT (usually port "+
				"4318); Prometheus scrapes the metrics from /metrics")
	}
}

// unreadable returns how to write a list or an address that the SDK cannot read. It returns an empty string for any
// other value.
func unreadable(name, value string) (remedy string) {
	switch {
	case strings.HasSuffix(name, "HEADERS") || name == "RESOURCE_ATTRIBUTES":
		if !arePairs(value) {
			return "write name=value,name=value, with special characters of values percent-encoded"
		}
	case strings.HasSuffix(name, "ENDPOINT"):
		if u, err := url.Parse(value); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return "write http://host:4318 or https://host:4318"
		}
	}
	return ""
}

func arePairs(list string) bool {
	for pair := range strings.SplitSeq(list, ",") {
		name, value, ok := strings.Cut(pair, "=")
		if _, err := url.PathUnescape(value); !ok || err != nil || strings.ContainsAny(strings.TrimSpace(name), " :") {
			return false
		}
	}
	return true
}
