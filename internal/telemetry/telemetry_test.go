package telemetry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// clearEnvironment empties the standard variables for a test.
func clearEnvironment(t *testing.T) {
	t.Helper()
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "")
		}
	}
}

func start(t *testing.T, log io.Writer) *Telemetry {
	t.Helper()
	telemetry, err := New(t.Context(), Build{Version: "1.2.3", Commit: "abc"}, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := telemetry.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	})
	return telemetry
}

func scrape(t *testing.T, telemetry *Telemetry) string {
	t.Helper()
	answer := httptest.NewRecorder()
	telemetry.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if answer.Code != http.StatusOK {
		t.Fatalf("status %d: %s", answer.Code, answer.Body)
	}
	return answer.Body.String()
}

// Users write alerts against these names and labels.
func TestMetricNames(t *testing.T) {
	clearEnvironment(t)
	telemetry := start(t, io.Discard)
	meter := telemetry.Meter()
	destination := metric.WithAttributes(attribute.String("destination", "default"))
	counter, err1 := meter.Int64Counter("rows_relayed", metric.WithDescription("Rows."))
	histogram, err2 := meter.Float64Histogram("relay_latency", metric.WithUnit("s"), metric.WithDescription("Latency."),
		metric.WithExplicitBucketBoundaries(0.5))
	gauge, err3 := meter.Int64Gauge("database_up", metric.WithDescription("Up."))
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	counter.Add(t.Context(), 2, destination)
	histogram.Record(t.Context(), 0.25)
	gauge.Record(t.Context(), 1)
	got := scrape(t, telemetry)
	for _, line := range []string{
		`outbox_relay_rows_relayed_total{destination="default"} 2`,
		`outbox_relay_relay_latency_seconds_bucket{le="0.5"} 1`,
		`outbox_relay_relay_latency_seconds_sum 0.25`,
		`outbox_relay_database_up 1`,
		`outbox_relay_build_info{commit="abc",go_version="` + runtime.Version() + `",version="1.2.3"} 1`,
	} {
		if !strings.Contains(got, line+"\n") {
			t.Errorf("missing %s", line)
		}
	}
	for _, name := range regexp.MustCompile(`(?m)^[a-z_]+`).FindAllString(got, -1) {
		if !strings.HasPrefix(name, "outbox_relay_") && !strings.HasPrefix(name, "go_") &&
			!strings.HasPrefix(name, "process_") {
			t.Errorf("unexpected metric %s", name)
		}
	}
	if strings.Contains(got, "otel_scope") || strings.Contains(got, "target_info") {
		t.Error("the exporter's own labels are there")
	}
}

// Each Telemetry has a registry of its own, so that two in one process do not collide.
func TestRegistryIsPrivate(t *testing.T) {
	clearEnvironment(t)
	first, second := start(t, io.Discard), start(t, io.Discard)
	gauge, err := first.Meter().Int64Gauge("database_up")
	if err != nil {
		t.Fatal(err)
	}
	gauge.Record(t.Context(), 1)
	if strings.Contains(scrape(t, second), "database_up") {
		t.Error("the second shows what the first measured")
	}
}

func TestTracesAreExported(t *testing.T) {
	clearEnvironment(t)
	bodies := make(chan []byte, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/v1/traces" && r.Header.Get("Content-Type") == "application/x-protobuf" {
			bodies <- body
		}
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "team=checkout")
	telemetry := start(t, io.Discard)
	_, span := telemetry.Tracer().Start(t.Context(), "send orders")
	if !span.IsRecording() {
		t.Fatal("the span is not recorded")
	}
	span.End()
	if err := telemetry.traces.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	body := string(<-bodies)
	for _, want := range []string{"send orders", "outbox-relay", "1.2.3", "team", "checkout"} {
		if !strings.Contains(body, want) {
			t.Errorf("the request lacks %q", want)
		}
	}
}

func TestServiceName(t *testing.T) {
	clearEnvironment(t)
	received := make(chan string, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		received <- string(body)
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", collector.URL)
	t.Setenv("OTEL_SERVICE_NAME", "shop-outbox")
	telemetry := start(t, io.Discard)
	_, span := telemetry.Tracer().Start(t.Context(), "x")
	span.End()
	if err := telemetry.traces.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(<-received, "shop-outbox") {
		t.Error("OTEL_SERVICE_NAME was not used")
	}
}

func TestNoSpansWithoutEndpoint(t *testing.T) {
	clearEnvironment(t)
	_, span := start(t, io.Discard).Tracer().Start(t.Context(), "x")
	if span.IsRecording() || span.SpanContext().IsValid() {
		t.Error("a span was made")
	}
}

func TestTracesWanted(t *testing.T) {
	t.Parallel()
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318"
	for variables, want := range map[string]bool{
		"": false, endpoint: true, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://c:4318/v1/traces": true,
		"OTEL_TRACES_EXPORTER=otlp":                                                                     false,
		endpoint + " OTEL_TRACES_EXPORTER=otlp":                                                         true,
		endpoint + " OTEL_TRACES_EXPORTER=none":                                                         false,
		endpoint + " OTEL_TRACES_EXPORTER=zipkin":                                                       false,
		endpoint + " OTEL_SDK_DISABLED=True":                                                            false,
		endpoint + " OTEL_SDK_DISABLED=no":                                                              true,
		endpoint + " OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf":                                         true,
		endpoint + " OTEL_EXPORTER_OTLP_PROTOCOL=grpc":                                                  false,
		endpoint + " OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc":                                           false,
		endpoint + " OTEL_EXPORTER_OTLP_PROTOCOL=grpc OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf": true,
	} {
		env := map[string]string{}
		for entry := range strings.FieldsSeq(variables) {
			name, value, _ := strings.Cut(entry, "=")
			env[name] = value
		}
		if got := tracesWanted(func(name string) string { return env[name] }); got != want {
			t.Errorf("%s: %v", variables, got)
		}
	}
}

func TestErrorsAreLoggedSparsely(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		handle := logErrors(slog.New(slog.NewTextHandler(&log, nil)))
		for range 3 {
			handle(errors.New("collector away"))
			<-time.After(quiet - time.Second)
		}
		if lines := strings.Count(log.String(), "telemetry failed"); lines != 2 {
			t.Errorf("%d lines in %s", lines, &log)
		}
	})
}

// Variables that cannot be read, or that have no effect, are named once and without their values.
func TestVariablesAreChecked(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]string{
		"OTEL_EXPORTER_OTLP_HEADERS=Authorization=Bearer%20x,b=c":      "",
		"OTEL_EXPORTER_OTLP_HEADERS=Authorization: hush":               "_HEADERS",
		"OTEL_EXPORTER_OTLP_TRACES_HEADERS=a=hush%2":                   "_HEADERS",
		"OTEL_EXPORTER_OTLP_HEADERS=a=hush,":                           "_HEADERS",
		"OTEL_EXPORTER_OTLP_ENDPOINT=https://c:4318/":                  "",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=u:hush@c:4318":             "_ENDPOINT",
		"OTEL_EXPORTER_OTLP_ENDPOINT=grpc://hush:4317":                 "_ENDPOINT",
		"OTEL_RESOURCE_ATTRIBUTES=hush":                                "OTEL_RESOURCE_ATTRIBUTES",
		"OTEL_METRICS_EXPORTER=prometheus":                             "",
		"OTEL_TRACES_EXPORTER=none":                                    "",
		"OTEL_TRACES_EXPORTER=otlp":                                    "OTEL_TRACES_EXPORTER",
		"OTEL_TRACES_EXPORTER=zipkin":                                  "OTEL_TRACES_EXPORTER",
		"OTEL_EXPORTER_OTLP_PROTOCOL=http/json":                        "",
		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc":                      "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
		"OTEL_METRICS_EXPORTER=otlp":                                   "OTEL_METRICS_EXPORTER",
		"OTEL_LOGS_EXPORTER=otlp":                                      "OTEL_LOGS_EXPORTER",
		"OTEL_EXPORTER_OTLP_METRICS_HEADERS=hush":                      "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
		"OTEL_BSP_SCHEDULE_DELAY=100":                                  "",
		"OTEL_RESOURCE_ATTRIBUTES_POD_NAME=shop-1":                     "",
		"OTEL_METRICS_EXPORTER=":                                       "",
		"HOTEL_METRICS_EXPORTER=otlp":                                  "",
		"OTEL_EXPORTER_JAEGER_ENDPOINT=http://u:hush@jaeger:14268/api": "OTEL_EXPORTER_JAEGER_ENDPOINT",
	} {
		var log bytes.Buffer
		checkVariables([]string{entry}, slog.New(slog.NewTextHandler(&log, nil)))
		text := log.String()
		if strings.Contains(text, "hush") || want == "" && text != "" || !strings.Contains(text, want) ||
			strings.Count(text, "\n") > 1 {
			t.Errorf("%s: %q", entry, text)
		}
	}
}
