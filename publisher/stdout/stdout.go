// Package stdout publishes messages as lines of JSON, for trying out the relay.
package stdout

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A Publisher writes one line of JSON for each message.
type Publisher struct {
	w      io.Writer
	turn   chan struct{} // holds a token while a write is under way
	torn   bool          // the last line is incomplete; guarded by turn
	closed chan struct{}
	end    sync.Once
}

// New returns a publisher that writes to w, with one Write for each call of Publish. It does not close w.
func New(w io.Writer) *Publisher {
	return &Publisher{w: w, turn: make(chan struct{}, 1), closed: make(chan struct{})}
}

// Publish returns when the lines are written. A write cannot be interrupted. If ctx ends during the write, or the write
// fails after a part of the text, the messages are Ambiguous. The next call waits until the write is over.
func (p *Publisher) Publish(ctx context.Context, messages []publisher.Message) []error {
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
	case <-p.closed:
		err = publisher.AmbiguousError("write unfinished",
			"the publisher was closed before the write to standard output ended")
	}
	if err != nil { // also for messages that cannot be printed, since those before them were not written
		return slices.Repeat([]error{err}, len(messages))
	}
	return answers
}

// write writes the text, on a new line if the last write ended within a line.
func (p *Publisher) write(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	if p.torn {
		text = append([]byte{'\n'}, text...)
	}
	n, err := p.w.Write(text)
	if n > 0 {
		p.torn = text[n-1] != '\n'
	}
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
	select {
	case <-p.closed:
		return publisher.ErrClosed
	default:
		return nil
	}
}

// Close waits up to a second for a write that is under way. It returns an error if the write has not ended by then.
func (p *Publisher) Close() error {
	p.end.Do(func() { close(p.closed) })
	patience := time.NewTimer(time.Second)
	defer patience.Stop()
	select {
	case p.turn <- struct{}{}:
		<-p.turn
		return nil
	case <-patience.C:
		return errors.New("close: a write to standard output is still under way")
	}
}

// begin takes the turn, or returns the answer for every message.
func (p *Publisher) begin(ctx context.Context) error {
	select {
	case <-p.closed:
		return publisher.ErrClosed
	default:
	}
	if ctx.Err() != nil || publisher.StopOf(ctx).Closed() {
		return publisher.ErrNotAttempted
	}
	select {
	case p.turn <- struct{}{}:
		return nil
	case <-p.closed:
		return publisher.ErrClosed
	case <-ctx.Done():
		return publisher.ErrNotAttempted
	}
}
