// Package telemetry provides the relay's meter and tracer: metrics for Prometheus on a registry of their own, and
// traces over OTLP if the standard variables name an endpoint.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	prometheusexporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

const (
	scope     = "github.com/outbox-relay/outbox-relay"
	namespace = "outbox_relay"
)

// Telemetry holds the providers until Shutdown.
type Telemetry struct {
	registry *prometheus.Registry
	meters   *sdkmetric.MeterProvider
	traces   *sdktrace.TracerProvider // nil if no spans are exported
	logger   *slog.Logger
}

// Build describes this program.
type Build struct{ Version, Commit string }

// New starts the providers. It makes no connection; if the collector is away, that costs a log line and the lost spans.
// Errors inside OpenTelemetry go to logger for the whole process, since the library has no other place for them.
func New(ctx context.Context, build Build, logger *slog.Logger) (*Telemetry, error) {
	otel.SetErrorHandler(logErrors(logger))
	otel.SetLogger(logr.Discard()) // it would show headers and URLs as they were given, with their secrets
	checkVariables(os.Environ(), logger)

	// What the variables say takes precedence. No error is left where they can be read.
	described, _ := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "outbox-relay"),
			attribute.String("service.version", build.Version)),
		resource.WithFromEnv())
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	exporter, err := prometheusexporter.New(
		prometheusexporter.WithRegisterer(registry),
		prometheusexporter.WithNamespace(namespace),
		prometheusexporter.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes),
		prometheusexporter.WithoutScopeInfo(),
		prometheusexporter.WithoutTargetInfo())
	if err != nil {
		return nil, fmt.Errorf("export metrics: %w", err)
	}
	t := &Telemetry{
		registry: registry,
		meters:   sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter), sdkmetric.WithResource(described)),
		logger:   logger,
	}
	if t.traces, err = newTraces(ctx, described); err != nil {
		return nil, err
	}
	info, err := t.Meter().Int64Gauge("build_info", metric.WithDescription("The running program; always 1."))
	if err != nil {
		return nil, fmt.Errorf("describe build: %w", err)
	}
	info.Record(ctx, 1, metric.WithAttributes(
		attribute.String("version", build.Version), attribute.String("commit", build.Commit),
		attribute.String("go_version", runtime.Version())))
	return t, nil
}

// Meter returns the meter for the instruments. Their names get the prefix outbox_relay_, their unit as a suffix
// (_seconds for "s"), and counters _total.
func (t *Telemetry) Meter() metric.Meter { return t.meters.Meter(scope) }

// Traces reports whether spans are exported.
func (t *Telemetry) Traces() bool { return t.traces != nil }

// Tracer returns the tracer. It makes no spans if none are exported.
func (t *Telemetry) Tracer() trace.Tracer {
	if t.traces == nil {
		return noop.NewTracerProvider().Tracer(scope)
	}
	return t.traces.Tracer(scope)
}

// Handler serves the metrics in Prometheus' formats.
func (t *Telemetry) Handler() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(t.logger.Handler(), slog.LevelError),
		// A gauge that cannot be read must not keep the others from being read.
		ErrorHandling: promhttp.ContinueOnError,
	})
}

// Shutdown sends the remaining spans and stops the providers. It waits for the collector until ctx ends.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	err := t.meters.Shutdown(ctx)
	if t.traces != nil {
		err = errors.Join(t.traces.Shutdown(ctx), err)
	}
	return err
}
