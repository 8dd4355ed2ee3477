package relay

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/panics"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// closeTimeout is how long a publisher that has panicked may take to close. It may never return, since what it has
// locked stays locked.
const closeTimeout = 2 * time.Second

// open returns the publisher to use now. The state in which a panic leaves a publisher is unknown, so one that has
// panicked was given up, and open opens another one. The error is an answer for each of the messages: the destination
// is unavailable, which costs no attempt.
func (d *Destination) open() (_ publisher.Publisher, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, publisher.ErrClosed
	}
	if d.inUse == nil {
		if d.inUse, err = d.Reopen(); err != nil {
			d.inUse = nil
			return nil, publisher.UnavailableError(publisher.ScopeDestination,
				"publisher not opened", "open the publisher after a panic: %w", err)
		}
	}
	return d.inUse, nil
}

// unanswered returns the number of messages that the publisher has sent and whose answers may still come.
func (d *Destination) unanswered() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return publisher.UnansweredOf(d.inUse)
}

// giveUp closes a publisher that has panicked, unless that has been done. A new one is opened when it is needed. Where
// the user has given no way to open one, the broken publisher stays in use. Several workers may have met the same
// panic, and only the first closes the publisher.
func (d *Destination) giveUp(broken publisher.Publisher) {
	d.mu.Lock()
	ours := d.Reopen != nil && d.inUse == broken
	if ours {
		d.inUse = nil
	}
	d.mu.Unlock()
	if !ours {
		return
	}
	atMost(closeTimeout, func() {
		defer func() { _ = recover() }() // the publisher is broken and may panic again
		_ = broken.Close()               // its error is of no use
	})
}

// atMost waits until do has ended, but not longer than a limit. What takes longer goes on in its goroutine.
func atMost(limit time.Duration, do func()) {
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	select {
	case <-done:
	case <-time.After(limit):
	}
}

// guard calls do. A panic in it is logged with its consequence, once for each place, and returned.
func (d *Destination) guard(logger *slog.Logger, consequence string, do func()) (caught *panics.Error) {
	defer func() {
		if value := recover(); value != nil {
			if caught = panics.Caught(value); d.panics.First(caught) {
				logger.Error("panic: please report it, with the stack",
					"destination", d.Name, "consequence", consequence, "error", caught, "stack", caught.Stack())
			}
		}
	}()
	do()
	return nil
}

// Close closes the publisher that is in use. Nothing is published to the destination afterwards.
func (d *Destination) Close() error {
	d.mu.Lock()
	last := d.inUse
	d.inUse, d.closed = nil, true
	d.mu.Unlock()
	if last == nil {
		return nil
	}
	if err := last.Close(); err != nil {
		return fmt.Errorf("close publisher of destination %s: %w", d.Name, err)
	}
	return nil
}
