package amqp

import (
	"context"
	"errors"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/connect"
)

// closeTimeout bounds the wait for the broker's reply to a close.
const closeTimeout = time.Second

// A connection is one connection to the broker and its channels.
type connection struct {
	amqp    *amqp091.Connection
	socket  *socket
	address string
	url     string        // URL with which the connection was made
	silence time.Duration // how long the broker may take for the first sign of an answer
	made    time.Time     // time at which the connection was made
	ended   chan struct{} // closed when the connection has ended

	// The following fields are for a login by token. Only the goroutine that has set renewing changes them.
	token     string    // token that the broker currently has
	renewAt   time.Time // earliest time of the next renewal, after a failed one
	unrenewed string    // reason of the last failed renewal, as logged

	// patience is the age that the connection must have before a refusal is a reason to log in again.
	patience time.Duration
	seed     maphash.Seed
	user     string // user that has logged in; empty if not known
	typed    bool   // header values keep their types
	unrouted bool   // messages need no route
	log      *slog.Logger
	running  *sync.WaitGroup // wait group of the publisher

	renewing  atomic.Bool                   // the token is being renewed
	refused   atomic.Bool                   // the broker has refused access on the connection, and its login has not been checked since
	checking  atomic.Bool                   // a check whether the broker still answers is under way
	accepts   atomic.Int64                  // number of messages accepted on the connection
	waryUntil atomic.Int64                  // Unix time in nanoseconds until which routes are tried one by one
	futile    atomic.Int64                  // value of accepts when a message had been waited for in vain, plus one; 0 before that
	largest   atomic.Int64                  // size of the largest payload that was accepted
	blocked   atomic.Pointer[string]        // the broker's reason while it blocks publishing
	cause     atomic.Pointer[amqp091.Error] // reason why the connection ended, if this client did not end it

	mu        sync.Mutex
	exchanges map[string]struct{} // exchanges that existed at the last check
	idle      []*channel
	kept      map[keptID]*kept // messages that calls have given up
	busy      map[*channel]struct{}
	closing   bool
	users     int  // number of calls that use the connection
	retired   bool // another connection has taken its place
}

// start begins to watch the connection. If the previous connection ended while it was blocked, blocked is the reason.
func (c *connection) start(blocked *string) {
	closes := c.amqp.NotifyClose(make(chan *amqp091.Error, 1))
	blocks := c.amqp.NotifyBlocked(make(chan amqp091.Blocking, 1))
	if blocked != nil {
		c.blocked.Store(blocked)
		c.running.Go(func() { c.tryOut(blocked) })
	}
	c.running.Go(func() { c.watch(closes, blocks) })
}

// tryOut finds out whether the broker still blocks. The broker reports this to a connection only once the connection
// publishes. Rows would wait in the broker's socket and all be published at the end of the alarm, and once more for
// each connection that was lost in the meantime. tryOut therefore uses a message that goes nowhere.
func (c *connection) tryOut(presumed *string) {
	_ = c.publishNowhere() // an error ends the connection, or is an answer as well
	if !c.amqp.IsClosed() && c.blocked.CompareAndSwap(presumed, nil) {
		c.log.Info("rabbitmq takes messages again", "address", c.address)
		c.wake()
	}
}

// publishNowhere publishes one byte to the queue with the empty name, which does not exist. It waits until the broker
// has confirmed or refused the message, or the connection has ended.
func (c *connection) publishNowhere() error {
	ch, err := c.amqp.Channel()
	if err != nil {
		return err
	}
	if err := ch.Confirm(false); err != nil {
		return err
	}
	const mandatory, immediate = false, false
	confirm, err := ch.PublishWithDeferredConfirm("", "", mandatory, immediate, amqp091.Publishing{Body: []byte{0}})
	if err != nil {
		return err
	}
	<-confirm.Done()
	return ch.Close()
}

// watch follows the connection's state until the connection and all its channels have ended.
func (c *connection) watch(closes <-chan *amqp091.Error, blocks <-chan amqp091.Blocking) {
	defer close(c.ended)
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
				c.log.Warn("rabbitmq blocks publishing", "address", c.address, "reason", b.Reason)
			default:
				c.blocked.Store(nil)
				c.log.Info("rabbitmq takes messages again", "address", c.address)
			}
		}
		c.wake()
	}
	c.mu.Lock()
	closing := c.closing
	c.mu.Unlock()
	if !closing {
		c.log.Warn("rabbitmq connection lost", "address", c.address, "error", c.lost())
	}
	c.wake()
}

// wake makes every call on the connection check for answers.
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

// usable returns the answer for messages that cannot be sent now, or nil if they can. The library needs a moment to
// notice that the socket has been given up.
func (c *connection) usable() error {
	if c.amqp.IsClosed() || c.socket.broken.Load() != nil {
		return c.lost()
	}
	if reason := c.blocked.Load(); reason != nil {
		return unavailable("broker blocked", "RabbitMQ at %s has blocked publishing (%s): free memory or disk on the broker", c.address, *reason)
	}
	return nil
}

// lost returns the answer for messages that were not sent on a connection that has ended.
func (c *connection) lost() error {
	_, cause := c.socket.heard()
	if broken := c.socket.broken.Load(); broken != nil {
		cause = *broken
	}
	cause = connect.Stable(cause)
	if server := c.cause.Load(); server != nil && server.Server {
		cause = server
	}
	if cause != nil {
		return unavailable("connection lost", "the connection to RabbitMQ at %s was lost: %w", c.address, cause)
	}
	return unavailable("connection lost", "the connection to RabbitMQ at %s has ended", c.address)
}

// ask waits for a question to the broker and its answer. The library cannot interrupt a question. If ctx ends first,
// ask returns ErrNotAttempted, and the question ends later with its answer or with the connection. If nothing at all
// has been received for too long, or for all of the time that ctx allowed, ask ends the connection.
func (c *connection) ask(ctx context.Context, question func(*amqp091.Connection) error) error {
	heard, begun, patience := c.socket.received.Load(), time.Now(), c.patienceOf(ctx)
	done := make(chan error, 1)
	c.running.Go(func() { done <- question(c.amqp) })
	select {
	case err := <-done:
		if err != nil && c.amqp.IsClosed() {
			return c.lost()
		}
		return err
	case <-ctx.Done():
		// The broker does not read from a blocked connection, and sends nothing on it for as long as the alarm lasts.
		if c.socket.received.Load() == heard && time.Since(begun) >= patience && c.blocked.Load() == nil {
			c.socket.fail(errSilence)
		}
		return publisher.ErrNotAttempted
	}
}

// How long a broker may take for the first sign of an answer, when it is asked in a ping or after a message was not
// confirmed in time. A connection that is silent for longer counts as dead, for example because a firewall on the way has
// forgotten it. Heartbeats would take half a minute to find that out. Whatever is in flight is then published again, so a
// node that has no substitute is given more time: it may just be busy.
const (
	silence      = time.Second             // with several hosts
	silenceAlone = 2500 * time.Millisecond // below the timeouts of pings and of half-open connections
)

var errSilence = errors.New("it has fallen silent")

// silent reports whether the connection was ended because nothing came from the broker.
func (c *connection) silent() bool {
	broken := c.socket.broken.Load()
	return broken != nil && errors.Is(*broken, errSilence)
}

// patienceOf returns how long the broker may be silent within a call: no longer than the call may take, so that a
// connection that a firewall has forgotten is found at the first short timeout.
func (c *connection) patienceOf(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return max(min(c.silence, time.Until(deadline)), silence*9/10) // a part of a second's time has passed
	}
	return c.silence
}

// check finds out, in the background, whether the broker still answers on the connection. The call that wants to know
// has ctx, and need not wait.
func (c *connection) check(ctx context.Context) {
	if !c.checking.CompareAndSwap(false, true) {
		return
	}
	patience := c.patienceOf(ctx)
	c.running.Go(func() {
		defer c.checking.Store(false)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		_ = c.ask(ctx, greet)
	})
}

// greet sends a request that changes nothing.
func greet(conn *amqp091.Connection) error {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	return ch.Close()
}

// ping returns nil if the broker answers and would take messages for the exchange.
func (c *connection) ping(ctx context.Context, exchange string) error {
	if err := c.usable(); err != nil {
		return err
	}
	if exchange != "" {
		return c.lookFor(ctx, exchange, publisher.ScopeDestination)
	}
	return c.failed("open channel", c.ask(ctx, greet))
}

// failed returns err as an answer for messages that were not sent.
func (c *connection) failed(what string, err error) error {
	if _, answer := errors.AsType[*publisher.Error](err); err == nil || answer {
		return err
	}
	return unavailable(what+" failed", "%s on RabbitMQ at %s: %w", what, c.address, err)
}

// checkExchange looks for the exchange before it is first used. Publishing to a missing exchange closes the channel and
// leaves everything on it without an answer. The default exchange always exists.
func (c *connection) checkExchange(ctx context.Context, name string, scope publisher.Scope) error {
	if name == "" {
		return nil
	}
	c.mu.Lock()
	_, seen := c.exchanges[name]
	c.mu.Unlock()
	if seen {
		return nil
	}
	return c.lookFor(ctx, name, scope)
}

// maxExchanges is the maximum number of exchanges that are remembered. Rows may name any number.
const maxExchanges = 1000

// forgetExchanges clears the known exchanges, so that each is looked for again before it is used.
func (c *connection) forgetExchanges() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.exchanges)
}

// lookFor asks for the exchange on a separate channel, which the broker closes if the exchange is missing. The answer
// then has the given scope.
func (c *connection) lookFor(ctx context.Context, name string, scope publisher.Scope) error {
	err := c.ask(ctx, func(conn *amqp091.Connection) error {
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		// The broker does not compare the kind.
		if err := ch.ExchangeDeclarePassive(name, amqp091.ExchangeTopic, true, false, false, false, nil); err != nil {
			return err
		}
		return ch.Close()
	})
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.exchanges) >= maxExchanges {
			clear(c.exchanges)
		}
		c.exchanges[name] = struct{}{}
		return nil
	}
	if answer, ok := errors.AsType[*amqp091.Error](err); ok {
		switch answer.Code {
		case amqp091.NotFound:
			return topology(scope, "no exchange", "the exchange %q does not exist on RabbitMQ at %s: declare it", name, c.address)
		case amqp091.AccessRefused:
			c.refused.Store(true)
			return topology(scope, "exchange refused", "RabbitMQ at %s refuses the exchange %q: %w", c.address, name, answer)
		}
	}
	return c.failed("check exchange", err)
}

// take returns a channel for one call alone, which must give it back with put.
func (c *connection) take(ctx context.Context) (*channel, error) {
	for {
		c.mu.Lock()
		for len(c.idle) > 0 {
			ch := c.idle[len(c.idle)-1]
			c.idle = c.idle[:len(c.idle)-1]
			if !ch.amqp.IsClosed() {
				c.busy[ch] = struct{}{}
				c.mu.Unlock()
				return ch, nil
			}
		}
		c.mu.Unlock()
		// A channel that is opened too late for this call serves another one.
		if err := c.ask(ctx, c.open); err != nil {
			return nil, c.failed("open channel", err)
		}
	}
}

// open adds an idle channel.
func (c *connection) open(conn *amqp091.Connection) error {
	ch, err := newChannel(c, conn)
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.idle = append(c.idle, ch)
	}
	return err
}

// put takes a channel back. A channel with unanswered messages is closed in the background, because late answers must
// not be taken for those of a later call.
func (c *connection) put(ch *channel, clean bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.busy, ch)
	ch.writer.forget()
	switch {
	case ch.amqp.IsClosed(), ch.kept > 0:
	case clean && !ch.stale:
		c.idle = append(c.idle, ch)
	default:
		c.running.Go(func() { _ = ch.amqp.Close() })
	}
}

// close ends the connection with a notice to the broker, and takes about closeTimeout at most. If the broker does not
// receive the notice, or if the connection breaks in the meantime, that is not a failure: calls that are under way get
// answers of their own.
func (c *connection) close() {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	// Each frame that arrives removes the deadline that the library sets.
	kill := time.AfterFunc(closeTimeout, func() { _ = c.socket.Close() })
	defer kill.Stop()
	_ = c.amqp.CloseDeadline(time.Now().Add(closeTimeout))
}
