package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// newTraces exports spans over OTLP with HTTP if the variables require it; otherwise it returns nil. The SDK itself
// reads sampler, batches, limits, headers and certificates from their variables.
func newTraces(ctx context.Context, described *resource.Resource) (*sdktrace.TracerProvider, error) {
	if !tracesWanted(os.Getenv) {
		return nil, nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("export traces: %w", err)
	}
	return sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(described)), nil
}

// exporters and protocols are the values with which traces are exported. [checkVariables] logs variables with others.
var (
	exporters = []string{"", "otlp"}
	protocols = []string{"", "http/protobuf", "http/json"}
)

// tracesWanted reads the standard variables that turn the export on and off.
func tracesWanted(getenv func(string) string) bool {
	value := func(name string) string { return strings.TrimSpace(getenv("OTEL_" + name)) }
	of := func(name string) string {
		return cmp.Or(value("EXPORTER_OTLP_TRACES_"+name), value("EXPORTER_OTLP_"+name))
	}
	return of("ENDPOINT") != "" && slices.Contains(exporters, value("TRACES_EXPORTER")) &&
		slices.Contains(protocols, of("PROTOCOL")) && !strings.EqualFold(value("SDK_DISABLED"), "true")
}
