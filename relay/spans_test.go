package relay

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// Each row whose trace is sampled has a span from its insert to its mark or failure. The span is a child of the span
// that the row's headers name, and belongs to the attempt that ended it. Other rows have no span.
func TestRowSpans(t *testing.T) {
	t.Parallel()
	s, b := pgtest.New(t), publishertest.NewBroker()
	s.Exec(t,
		`create table outbox_messages (id bigint primary key, topic text not null, payload jsonb, headers jsonb, attempt int,
			last_error text,
		updated_at timestamptz, relayed_at timestamptz, failed_at timestamptz, inserted_at timestamptz)`)
	parent := func(id int, flags string) string { return fmt.Sprintf("00-%032x-%016x-%s", id, id, flags) }
	before := time.Now().Add(-time.Hour).Truncate(time.Microsecond)
	for id, headers := range map[int]map[string]string{
		1: {"traceparent": parent(1, "01"), "tracestate": "shop=1"},
		2: {"Traceparent": parent(2, "03")}, // is refused once
		3: {"traceparent": parent(3, "01")}, // fails
		4: {"traceparent": parent(4, "00")},
		5: {"traceparent": "00-1-2-01"},
		6: {},
		7: {"traceparent": parent(7, "01")}, // inserted in the future
	} {
		at := before
		if id == 7 {
			at = time.Now().Add(time.Hour)
		}
		s.Exec(t, "insert into outbox_messages (id, topic, payload, headers, inserted_at) values ($1, 'order', '{}', $2, $3)",
			id, headers, at)
	}
	b.Refuse("2", 1)
	b.Answer("3", publisher.PermanentError("too large", "too large"))
	exporter := tracetest.NewInMemoryExporter()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)).Tracer("test")
	r := replica(t, s, b, func(c *tested) { c.Tracer, c.TraceRows = tracer, true })
	// Some formats have no headers.
	r.config.Destinations[0].profile = func(m *publisher.Message, _ int64) error { m.Headers = nil; return nil }
	if err := r.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, span := range exporter.GetSpans() {
		if span.Name == "send default" {
			continue
		}
		if span.EndTime.Before(span.StartTime) || time.Since(span.EndTime) > time.Minute {
			t.Errorf("the span of %s ends at %v", span.SpanContext.TraceID(), span.EndTime)
		}
		if at := span.StartTime; at.Equal(before) == (span.Parent.TraceID()[15] == 7) {
			t.Errorf("the span of %s begins at %v", span.SpanContext.TraceID(), at)
		}
		text := fmt.Sprintf("%s in %x under %x %s", span.Name, span.SpanContext.TraceID()[15], span.Parent.SpanID()[7],
			span.SpanContext.TraceState())
		for _, a := range span.Attributes {
			text += fmt.Sprintf(" %s=%s", a.Key, a.Value.String())
		}
		if span.Status.Code == codes.Error {
			text += ": " + span.Status.Description
		}
		got = append(got, text)
	}
	slices.Sort(got)
	want := []string{
		"relay default in 1 under 1 shop=1 outbox_relay.destination=default outbox_relay.attempt=1 messaging.message.id=1 " +
			"messaging.destination.name=order",
		"relay default in 2 under 2  outbox_relay.destination=default outbox_relay.attempt=2 messaging.message.id=2 " +
			"messaging.destination.name=order",
		"relay default in 3 under 3  outbox_relay.destination=default outbox_relay.attempt=1 messaging.message.id=3 " +
			"messaging.destination.name=order: too large",
		"relay default in 7 under 7  outbox_relay.destination=default outbox_relay.attempt=1 messaging.message.id=7 " +
			"messaging.destination.name=order",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}
