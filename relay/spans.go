package relay

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// traceOf returns the trace that a row's headers name, as W3C trace context has it. The result is not valid if they
// name none.
func traceOf(m *publisher.Message) trace.SpanContext {
	carrier := propagation.MapCarrier{}
	carrier["traceparent"], _ = m.Header("traceparent")
	carrier["tracestate"], _ = m.Header("tracestate")
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}

// rowSpan begins the span of a row now, since a wire format may leave out the headers later. The returned function
// makes the span when the row has been marked or has failed with an error. It is nil if the row's trace is not sampled.
func rowSpan(tracer trace.Tracer, destination string, r *engine.Row, now time.Time) (
	end func(failed error, now time.Time),
) {
	parent := traceOf(&r.Message)
	if !parent.IsSampled() {
		return nil
	}
	began := r.Message.Inserted
	if began.IsZero() || began.After(now) { // the database's clock may be ahead of ours
		began = now
	}
	return func(failed error, now time.Time) {
		ctx := trace.ContextWithRemoteSpanContext(context.Background(), parent)
		_, span := tracer.Start(ctx, "relay "+destination, trace.WithTimestamp(began), trace.WithAttributes(
			attribute.String("outbox_relay.destination", destination), attribute.Int64("outbox_relay.attempt", r.Try),
			attribute.String("messaging.message.id", r.Message.ID),
			attribute.String("messaging.destination.name", r.Message.Topic)))
		if failed != nil {
			span.SetStatus(codes.Error, publisher.ShortOf(failed))
		}
		span.End(trace.WithTimestamp(now))
	}
}
