package amqp

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/connect"
)

// closeTimeout bounds the wait for the broker's reply to a close. A broker under an alarm reads nothing and never
// replies; the library's own Close would wait for it.
const closeTimeout = time.Second

// A connection is one connection to the broker and its channels. Calls, the library's reader, watch and the keeper use
// it at the same time: what changes is atomic, guarded by mu, or named as belonging to one of them.
type connection struct {
	connect.State
	p       *Publisher
	amqp    *amqp091.Connection
	socket  *socket
	address string
	uri     amqp091.URI   // the host, with the user and password or token with which it has logged in
	url     string        // URL with which the connection was made
	made    time.Time     // time at which it was made, or at which a refused token was last given up; for the keeper
	pool    chan *channel // channels that no call uses; in place of nil, one may be opened
	limit   string        // what allows no further channels than those of the pool; empty for nothing

	user string // user that has logged in; empty if the broker derives it from a certificate or a token

	closing atomic.Bool // this client ends the connection
	refused atomic.Bool // the broker has refused access, and the login has not been checked since
	futile  atomic.Bool // a message was waited for in vain, and none was accepted for a while (see leaves)

	accepts atomic.Int64                  // Unix time in nanoseconds at which a message was last accepted
	blocked atomic.Pointer[string]        // the broker's reason while it blocks publishing
	freed   atomic.Int64                  // Unix time in nanoseconds at which the broker has last ceased to block
	cause   atomic.Pointer[amqp091.Error] // reason why the connection ended, if this client did not end it

	exchanges sync.Map // names of exchanges that existed when they were last looked for

	mu   sync.Mutex
	busy map[*channel]struct{}
}

// start begins to watch the connection. It is called before the first channel is opened, so that no notice is missed.
func (c *connection) start() {
	closes := c.amqp.NotifyClose(make(chan *amqp091.Error, 1))
	blocks := c.amqp.NotifyBlocked(make(chan amqp091.Blocking, 1))
	c.p.life.Go(func() { c.watch(closes, blocks) })
}

// watch follows the connection's state until the connection and all its channels have ended. The library closes both of
// its channels at the end; only then is the reason certain.
func (c *connection) watch(closes <-chan *amqp091.Error, blocks <-chan amqp091.Blocking) {
	defer close(c.Ended)
	for closes != nil || blocks != nil {
		select {
		case err, open := <-closes:
			if !open {
				closes = nil
			} else {
				c.cause.Store(err)
			}
		case b, open := <-blocks:
			switch {
			case !open:
				blocks = nil
			case b.Active:
				c.blocked.Store(&b.Reason)
				c.p.log.Warn("rabbitmq blocks publishing", "address", c.address, "reason", b.Reason)
			default:
				c.freed.Store(time.Now().UnixNano())
				c.blocked.Store(nil)
				c.p.log.Info("rabbitmq takes messages again", "address", c.address)
			}
		}
		c.wake()
	}
	if !c.closing.Load() {
		c.p.log.Warn("rabbitmq connection lost", "address", c.address, "error", c.Lost())
	}
	c.wake()
}

// wake makes every call on the connection check for answers. It never blocks: a call that has not looked since the last
// time looks once for both.
func (c *connection) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ch := range c.busy {
		select {
		case ch.woken <- struct{}{}:
		default:
		}
	}
}

// broken reports whether the connection has ended. The library needs a moment to notice that the socket was given up.
func (c *connection) broken() bool { return c.amqp.IsClosed() || c.socket.Failure() != nil }

// usable returns the answer for messages that cannot be sent now, or nil if they can. A connection that the broker
// blocks is alive, so its calls keep their confirms and do not end it.
func (c *connection) usable() error {
	if reason := c.blocked.Load(); reason != nil && !c.broken() {
		return unavailable("broker blocked",
			"RabbitMQ at %s has blocked publishing (%s): free memory or disk on the broker", c.address, *reason)
	}
	return c.Away()
}

// Away implements [connect.Link]. During an alarm the broker reads nothing.
func (c *connection) Away() error {
	switch {
	case c.broken():
		return c.Lost()
	case c.Silent() && c.blocked.Load() == nil:
		return unavailable("no answer", "RabbitMQ at %s sends nothing any more: check that it runs, and the network",
			c.address)
	}
	return nil
}

// Lost implements [connect.Link]. The broker's own words count most.
func (c *connection) Lost() error {
	cause := connect.Stable(c.socket.reason())
	if server := c.cause.Load(); server != nil && server.Server {
		cause = server
	}
	if cause != nil {
		return unavailable("connection lost", "the connection to RabbitMQ at %s was lost: %w", c.address, cause)
	}
	return unavailable("connection lost", "the connection to RabbitMQ at %s has ended", c.address)
}

// ask waits for a question to the broker and its answer. The library cannot interrupt a question. If ctx ends first,
// ask returns ErrNotAttempted, and the question ends later with its answer or with the connection. A question that is
// left alone may hold its channel until then, so the number of channels bounds the number of such questions.
func (c *connection) ask(ctx context.Context, question func() error) error {
	done := make(chan error, 1)
	c.p.life.Go(func() { done <- question() })
	select {
	case err := <-done:
		if err != nil && c.amqp.IsClosed() {
			return c.Lost()
		}
		return err
	case <-ctx.Done():
		return publisher.ErrNotAttempted
	}
}

// Greet implements [connect.Link]. The broker can be asked if it reads, and if there is a channel to ask it on. A
// broker that blocks does not read, so its silence means nothing. If every channel is taken, the calls on them hear
// what comes.
func (c *connection) Greet(ctx context.Context) (asked bool) {
	if c.blocked.Load() != nil || len(c.pool) == 0 {
		return false
	}
	// This changes nothing, because the channel is in confirm mode already. What comes is noticed.
	_ = c.onChannel(ctx, func(ch *amqp091.Channel) error { return ch.Confirm(false) })
	return true
}

// failed returns err as an answer for messages that were not sent.
func (c *connection) failed(what string, err error) error {
	if _, answer := errors.AsType[*publisher.Error](err); err == nil || answer {
		return err
	}
	return unavailable(what+" failed", "%s on RabbitMQ at %s: %w", what, c.address, err)
}

// Close ends the connection with a notice to the broker, and takes about closeTimeout at most. If the broker does not
// receive the notice, or if the connection breaks in the meantime, that is not a failure: calls that are under way get
// answers of their own.
func (c *connection) Close() {
	c.closing.Store(true)
	// Each frame that arrives removes the deadline that the library sets.
	kill := time.AfterFunc(closeTimeout, func() { _ = c.socket.Close() })
	defer kill.Stop()
	_ = c.amqp.CloseDeadline(time.Now().Add(closeTimeout))
}
