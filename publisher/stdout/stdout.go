// Package stdout publishes messages as lines of JSON, for trying out the relay.
package stdout

import (
	"context"
	"errors"
	"io"
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

// Publish returns when the lines are written. A write cannot be interrupted. If ctx ends during the write, the messages
// are Ambiguous, and the next call waits until the write is over. After a write that failed or was short, the messages
// whose lines were written completely are accepted.
func (p *Publisher) Publish(ctx context.Context, messages []publisher.Message) []error {
	answers := make([]error, len(messages))
	if err := p.begin(ctx); err != nil {
		return fill(answers, err)
	}
	text, ends := lines(messages, answers)
	if len(text) == 0 {
		<-p.turn
		return answers
	}
	written := make(chan result, 1)
	go func() {
		r := p.write(text)
		<-p.turn
		written <- r
	}()
	select {
	case r := <-written:
		if r.err != nil {
			failed(answers, ends, r.n, publisher.UnavailableError(publisher.ScopeDestination,
				"write failed", "write to standard output: %w", r.err))
		}
	case <-ctx.Done():
		failed(answers, ends, 0, publisher.AmbiguousError("write unfinished",
			"the write to standard output has not ended: %w", ctx.Err()))
	case <-p.closed:
		failed(answers, ends, 0, publisher.AmbiguousError("write unfinished",
			"the publisher was closed before the write to standard output ended"))
	}
	keepPrefix(messages, answers)
	return answers
}

// A result is the outcome of a write: the number of bytes of the text that were written, and the error.
type result struct {
	n   int
	err error
}

// write writes the text, on a new line if the last write ended within a line.
func (p *Publisher) write(text []byte) result {
	begin := 0
	if p.torn {
		text, begin = append([]byte{'\n'}, text...), 1
	}
	n, err := p.w.Write(text)
	if n > 0 {
		p.torn = text[n-1] != '\n'
	}
	return result{n - begin, err}
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

// failed gives the answer to the messages whose lines end after the first n bytes.
func failed(answers []error, ends []int, n int, err error) {
	for i, end := range ends {
		if end > n {
			answers[i] = err
		}
	}
}

// keepPrefix replaces a message's own Permanent answer by ErrNotAttempted if an older message of its key was not
// accepted, because the later message's turn has not come.
func keepPrefix(messages []publisher.Message, answers []error) {
	stopped := map[string]bool{}
	for i := range messages {
		if messages[i].Key == nil || answers[i] == nil {
			continue
		}
		key := string(messages[i].Key)
		if stopped[key] && publisher.ClassOf(answers[i]) == publisher.Permanent {
			answers[i] = publisher.ErrNotAttempted
		}
		stopped[key] = true
	}
}

func fill(answers []error, err error) []error {
	for i := range answers {
		answers[i] = err
	}
	return answers
}
