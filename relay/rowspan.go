package relay

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// rowSpan is what the span of a row begins with. It is made when the row is read, since a profile may leave out the headers.
type rowSpan struct {
	parent trace.SpanContext
	began  time.Time
}

// traceOf returns the trace that a row's headers name; it is not valid without one.
func traceOf(m *publisher.Message) trace.SpanContext {
	parent, _ := m.Header("traceparent")
	if parent == "" {
		return trace.SpanContext{}
	}
	state, _ := m.Header("tracestate")
	carrier := propagation.MapCarrier{"traceparent": parent, "tracestate": state}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}

// beginSpan notes where the span of a row will begin, nil where the row has none.
func (d *Destination) beginSpan(m *publisher.Message, now time.Time) *rowSpan {
	if d.rowSpans == nil {
		return nil
	}
	parent := traceOf(m)
	if !parent.IsSampled() {
		return nil
	}
	began := m.Inserted
	if began.IsZero() || began.After(now) { // the database's clock may be ahead of ours
		began = now
	}
	return &rowSpan{parent, began}
}

// endSpan makes the span of a row that has been marked, or has failed with an error.
func (d *Destination) endSpan(r *row, failed error, now time.Time) {
	if r.span == nil {
		return
	}
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), r.span.parent)
	_, span := d.rowSpans.Start(ctx, "relay "+d.Name, trace.WithTimestamp(r.span.began), trace.WithAttributes(
		attribute.String("outbox_relay.destination", d.Name), attribute.Int64("outbox_relay.attempt", r.attempt),
		attribute.String("messaging.message.id", r.Message.ID), attribute.String("messaging.destination.name", r.Message.Topic)))
	if failed != nil {
		span.SetStatus(codes.Error, publisher.ShortOf(failed))
	}
	span.End(trace.WithTimestamp(now))
}
