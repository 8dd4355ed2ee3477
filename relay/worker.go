package relay

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
	"github.com/outbox-relay/outbox-relay/relay/internal/retry"
)

// worker publishes one batch at a time to one destination. Any worker may get any key: the engine hands over no rows of
// a key that has some on the wire.
//
// The worker is the loop's while it is idle, and its goroutine's from start until it is sent to answers.
type worker struct {
	loop  *loop     // only the parts that never change are used
	tries bool      // it is for keys that were not accepted the last time
	since time.Time // when its call began, zero while it is idle; touched only by the loop
	most  int       // rows of a rehearsal; 0: all of a batch

	rows []*engine.Row // the batch
	errs []error       // its answers, one for each row; nil also where there is none yet
}

// start publishes a batch, if rehearsed is true only what the database would mark, and then tells the loop. ctx ends
// only when the relay may wait no longer. Nothing is sent after relaying has ended. It does not block. The two contexts
// are what makes a stop clean: answers of what was sent before it are waited for.
func (w *worker) start(ctx, relaying context.Context, rows []*engine.Row, rehearsed bool) {
	w.rows, w.errs = rows, make([]error, len(rows))
	go func() { // the loop waits for it
		started := time.Now()
		if rehearsed {
			w.rehearse(ctx, relaying)
		}
		w.publish(ctx, relaying)
		w.loop.to.measured.Stage(measure.StagePublish, time.Since(started))
		w.loop.answers <- w
	}()
}

// rehearse gives an answer to the rows that the database would not mark, as far as it can tell within a second or two.
// The rest of the batch is not attempted and comes again. If the database takes no writes at present, none is. A
// trigger that refuses each mark shows in no catalogue, and without the rehearsal as many rows as may be in flight were
// published at each start.
func (w *worker) rehearse(ctx, relaying context.Context) {
	rows := w.rows
	if w.most > 0 && w.most < len(rows) {
		rows = rows[:w.most]
		putOff(w.errs[w.most:])
	}
	var read []*outbox.Row
	for _, r := range rows {
		if !r.Rehearsed {
			read = append(read, r.Row)
		}
	}
	if len(read) == 0 {
		return
	}
	limited, cancel := context.WithTimeout(ctx, engine.StatementTimeout)
	refused, err := w.loop.table.Rehearse(limited, read)
	cancel()
	// The server has ended it, which says nothing about any row. A quarter is tried the next time.
	if outbox.Cancelled(err) {
		w.most = max(1, len(read)/4)
		putOff(w.errs)
		return
	}
	w.most = min(2*w.most, 1<<20) // where fewer were tried
	if w.loop.database.rehearsed(w.loop.state, err); err != nil {
		putOff(w.errs)
		select { // the database is not asked all the time
		case <-relaying.Done():
		case <-time.After(retry.ShortestHold):
		}
		return
	}
	for i, r := range rows {
		switch why := refused[r.Identity()]; {
		// It waits behind the row before it: of each key the publisher gets a prefix, too.
		case i > 0 && w.errs[i-1] != nil && r.Beside(rows[i-1]):
			w.errs[i] = publisher.ErrNotAttempted
		case why != nil:
			r.Unmarkable, w.errs[i] = why, publisher.ErrNotAttempted
		default:
			r.Rehearsed = true
		}
	}
}

// putOff answers that rows were not attempted.
func putOff(answers []error) {
	for i := range answers {
		answers[i] = publisher.ErrNotAttempted
	}
}

// publish publishes the rows that have no answer. The call ends with the publish timeout or with the trust in the
// ownership, whichever is first: after that another replica may publish rows of the same keys.
func (w *worker) publish(ctx, relaying context.Context) {
	messages := make([]publisher.Message, 0, len(w.rows))
	for i, r := range w.rows {
		if w.errs[i] == nil {
			messages = append(messages, r.Message)
		}
	}
	if len(messages) == 0 {
		return
	}
	now := time.Now()
	deadline := now.Add(w.loop.to.PublishTimeout)
	if trusted := w.loop.ownership.Trusted(); trusted.Before(deadline) {
		deadline = trusted
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	// What is sent in the first half of the time has the second half for its answer. If the last rows of a hot key were
	// sent later to a slow broker, they would be published again although the broker has them: 4 of 60 were, and a stop
	// took 8 seconds.
	relaying, stop := context.WithDeadline(relaying, now.Add(deadline.Sub(now)/2))
	defer stop()
	published := w.handOver(publisher.WithStop(ctx, relaying.Done()), messages)
	for i := range w.errs {
		if w.errs[i] == nil {
			w.errs[i], published = published[0], published[1:]
		}
	}
}

// handOver publishes the messages. After a panic, the outcome of all of them is unknown: some may have been sent. The
// row that causes it is found as one that breaks the connection is, alone and after some tries.
func (w *worker) handOver(ctx context.Context, messages []publisher.Message) (errs []error) {
	ctx, span := w.loop.config.Tracer.Start(ctx, "send "+w.loop.to.Name, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("messaging.operation.name", "send"),
			attribute.Int("messaging.batch.message_count", len(messages))))
	defer span.End()
	started := time.Now()
	if caught := w.loop.to.guard(w.loop.config.Logger,
		"what the publisher was given is published again", func() {
			errs = w.loop.to.Publisher.Publish(ctx, messages)
		}); caught != nil {
		why := publisher.AmbiguousError("panic", "the publisher has ended with a panic: %w", caught)
		return slices.Repeat([]error{why}, len(messages))
	}
	for _, err := range errs {
		if publisher.Republished(err) {
			w.loop.to.measured.Republish() //nolint:contextcheck // a counter needs no context
		}
		if publisher.ClassOf(err) != publisher.Accepted {
			span.SetStatus(codes.Error, publisher.ShortOf(err))
		}
	}
	w.loop.config.Logger.Debug("batch published",
		"destination", w.loop.to.Name, "rows", len(errs), "took", time.Since(started))
	return errs
}
