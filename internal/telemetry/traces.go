package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// traces is a tracer provider and the function that stops it.
type traces struct {
	provider trace.TracerProvider
	shutdown func(context.Context) error
	exported bool
}

// newTraces exports spans over OTLP with HTTP if the variables require it. The SDK itself reads sampler, batches,
// limits, headers and certificates from their variables.
func newTraces(ctx context.Context, described *resource.Resource, logger *slog.Logger) (traces, error) {
	none := traces{provider: noop.NewTracerProvider(), shutdown: func(context.Context) error { return nil }}
	wanted, warning := tracesWanted(os.Getenv)
	if warning != "" {
		logger.Warn("traces are not exported", "reason", warning)
	}
	if !wanted {
		return none, nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return none, fmt.Errorf("export traces: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(described))
	return traces{provider: provider, shutdown: provider.Shutdown, exported: true}, nil
}

// tracesWanted reads the standard variables that turn the export on and off. The warning says why a requested export
// does not happen.
func tracesWanted(getenv func(string) string) (wanted bool, warning string) {
	first := func(names ...string) (name, value string) {
		for _, name := range names {
			if value := strings.TrimSpace(getenv(name)); value != "" {
				return name, value
			}
		}
		return names[0], ""
	}
	_, endpoint := first("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
	_, exporter := first("OTEL_TRACES_EXPORTER")
	protocolName, protocol := first("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
	switch {
	case strings.EqualFold(strings.TrimSpace(getenv("OTEL_SDK_DISABLED")), "true"), exporter == "none":
		return false, ""
	case exporter != "" && exporter != "otlp":
		return false, fmt.Sprintf("OTEL_TRACES_EXPORTER=%q is not supported; use otlp or none", exporter)
	case endpoint == "" && exporter == "":
		return false, ""
	case endpoint == "":
		return false, "OTEL_TRACES_EXPORTER is otlp, but OTEL_EXPORTER_OTLP_ENDPOINT is not set"
	case protocol != "" && protocol != "http/protobuf" && protocol != "http/json":
		return false, fmt.Sprintf("%s=%q is not supported; use http/protobuf, usually port 4318 of the collector",
			protocolName, protocol)
	}
	return true, ""
}
