// Package stdout publishes messages as lines of JSON, for trying out the relay.
package stdout

import (
	"context"
	"io"
	"slices"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/connect"
)

// A Publisher writes one line of JSON for each message.
type Publisher struct {
	w    io.Writer
	turn chan struct{} // holds a token while a write is under way
	life *connect.Lifetime
}

// New returns a publisher that writes to w, with one Write for each call of Publish. It does not close w.
func New(w io.Writer) *Publisher {
	return &Publisher{w: w, turn: make(chan struct{}, 1), life: connect.NewLifetime()}
}

// Publish returns when the lines are written. A write cannot be interrupted. If ctx ends during the write, or the write
// fails after a part of the text, the messages are Ambiguous. The next call waits until the write is over.
func (p *Publisher) Publish(ctx context.Context, messages []publisher.Message) []error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.life.Ctx, cancel)() //nolint:contextcheck // Close ends every call
	if err := p.begin(ctx); err != nil {
		return slices.Repeat([]error{err}, len(messages))
	}
	text, answers := lines(messages)
	written := make(chan error, 1)
	go func() {
		err := p.write(text)
		<-p.turn
		written <- err
	}()
	var err error
	select {
	case err = <-written:
	case <-ctx.Done():
		err = publisher.AmbiguousError("write unfinished", "the write to standard output has not ended: %w", ctx.Err())
	}
	if err != nil { // also for messages that cannot be printed, since those before them were not written
		return slices.Repeat([]error{err}, len(messages))
	}
	return answers
}

// write writes the text.
func (p *Publisher) write(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	n, err := p.w.Write(text)
	switch {
	case err == nil:
		return nil
	case n == 0:
		return publisher.UnavailableError(publisher.ScopeDestination, "write failed", "write to standard output: %w",
			err)
	}
	return publisher.AmbiguousError("write failed", "write to standard output, after %d bytes: %w", n, err)
}

// Ping reports whether the publisher is open.
func (p *Publisher) Ping(context.Context) error {
	if p.life.Over() {
		return publisher.ErrClosed
	}
	return nil
}

// Close makes calls that are under way return. A write that has not ended by then goes on.
func (p *Publisher) Close() error {
	p.life.End()
	return nil
}

// begin takes the turn, or returns the answer for every message.
func (p *Publisher) begin(ctx context.Context) error {
	if p.life.Over() {
		return publisher.ErrClosed
	}
	if ctx.Err() == nil && !publisher.StopOf(ctx).Closed() {
		select {
		case p.turn <- struct{}{}:
			return nil
		case <-ctx.Done():
		}
	}
	return publisher.ErrNotAttempted
}
