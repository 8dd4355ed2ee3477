package telemetry

import (
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
)

const pair = ` *[^=,: ]+ *=([^,%]|%[0-9a-fA-F]{2})*`

// followed matches the standard variables, each with a value, that have the effect that they should have.
var followed = regexp.MustCompile(`^OTEL_(` + strings.Join([]string{
	`(SDK_DISABLED|SERVICE_NAME|TRACES_SAMPLER(_ARG)?|METRICS_EXEMPLAR_FILTER)=.*`,
	`((SPAN|EVENT|LINK)_)?(ATTRIBUTE|EVENT|LINK)_(COUNT|VALUE_LENGTH|VALUE_DEPTH)_LIMIT=.*`,
	`BSP_(SCHEDULE_DELAY|EXPORT_TIMEOUT|MAX_QUEUE_SIZE|MAX_EXPORT_BATCH_SIZE)=.*`,
	`EXPORTER_OTLP_(TRACES_)?(TIMEOUT|COMPRESSION|INSECURE|(CLIENT_)?CERTIFICATE|CLIENT_KEY)=.*`,
	`EXPORTER_OTLP_(TRACES_)?ENDPOINT=https?://[^/?#\s].*`,
	`EXPORTER_OTLP_(TRACES_)?PROTOCOL=(` + strings.Join(protocols[1:], "|") + `)`,
	`(RESOURCE_ATTRIBUTES|EXPORTER_OTLP_(TRACES_)?HEADERS)=` + pair + `(,` + pair + `)*`,
	`TRACES_EXPORTER=(otlp|none)`, `METRICS_EXPORTER=prometheus`, `LOGS_EXPORTER=(none|console)`,
	`PROPAGATORS=tracecontext(,baggage)?`,
	`GO_X_.*`, `RESOURCE_ATTRIBUTES_.*`, // of which an operator makes OTEL_RESOURCE_ATTRIBUTES
}, "|") + `)$`)

// checkVariables logs which variables have no effect, among them those that cannot be read. It shows no value, which
// may contain a secret, and removes the variable whose value an error of the SDK would quote.
func checkVariables(environ []string, logger *slog.Logger) {
	var ignored []string
	endpoint := false
	for _, entry := range slices.Sorted(slices.Values(environ)) {
		variable, value, _ := strings.Cut(entry, "=")
		if value = strings.TrimSpace(value); !strings.HasPrefix(variable, "OTEL_") || value == "" {
			continue
		}
		entry = variable + "=" + value
		fits := followed.MatchString(entry)
		endpoint = endpoint || fits && strings.HasSuffix(variable, "ENDPOINT") // sorted before the exporter
		if fits && (endpoint || entry != "OTEL_TRACES_EXPORTER=otlp") {
			continue
		}
		if ignored = append(ignored, variable); variable == "OTEL_RESOURCE_ATTRIBUTES" {
			_ = os.Unsetenv(variable) // fails for no such name
		}
	}
	if len(ignored) > 0 {
		logger.Warn("variables of OpenTelemetry have no effect", "variables", strings.Join(ignored, ", "),
			"reason", "only traces are exported, and only over OTLP with HTTP to OTEL_EXPORTER_OTLP_ENDPOINT, such as "+
				"http://host:4318; headers and attributes are name=value,name=value with special characters of values "+
				"percent-encoded; Prometheus scrapes the metrics from /metrics")
	}
}
