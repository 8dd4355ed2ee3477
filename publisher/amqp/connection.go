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
)

// closeTimeout bounds the wait for the broker's goodbye.
const closeTimeout = time.Second

// A connection is one connection to the broker and its channels.
type connection struct {
	amqp    *amqp091.Connection
	socket  *socket
	address string
	url     string        // that it was made with
	made    time.Time     // when
	ended   chan struct{} // closed when it has ended

	// For a login by token, changed by whoever has set renewing:
	token     string    // that the broker has of us
	renewAt   time.Time // no sooner, after it could not be renewed
	unrenewed string    // why it could not, as last told

	// patience is how old the connection must be for a refusal to be a reason to log in again.
	patience time.Duration
	seed     maphash.Seed
	user     string // that has logged in, empty where that is not known
	typed    bool   // header values keep their types
	unrouted bool   // messages need no route
	log      *slog.Logger
	running  *sync.WaitGroup // the publisher's

	renewing atomic.Bool                   // the token is about to be renewed
	refused  atomic.Bool                   // the broker has refused access on it, and nobody has looked at its login since
	checking atomic.Bool                   // whether the broker still answers
	useful   atomic.Bool                   // a message was accepted on it
	largest  atomic.Int64                  // size of the largest payload that was accepted
	blocked  atomic.Pointer[string]        // the broker's reason while it blocks publishing
	cause    atomic.Pointer[amqp091.Error] // why it ended, if not by us

	mu        sync.Mutex
	exchanges map[string]struct{} // that were there when last looked for
	idle      []*channel
	kept      map[keptID]*kept // messages that calls have given up
	busy      map[*channel]struct{}
	closing   bool
	users     int  // calls that use it
	retired   bool // another has taken its place
}

// start begins to watch the connection. blocked is the reason if the one before it ended while it was blocked.
func (c *connection) start(blocked *string) {
	closes := c.amqp.NotifyClose(make(chan *amqp091.Error, 1))
	blocks := c.amqp.NotifyBlocked(make(chan amqp091.Blocking, 1))
	if blocked != nil {
		c.blocked.Store(blocked)
		c.running.Go(func() { c.tryOut(blocked) })
	}
	c.running.Go(func() { c.watch(closes, blocks) })
}

// tryOut finds out whether the broker still blocks, which it tells a connection only once that publishes. Rows
// would wait in the broker's socket and all be published at the end of the alarm, again for each connection
// that was lost meanwhile; so it is done with a message that goes nowhere.
func (c *connection) tryOut(presumed *string) {
	_ = c.publishNowhere() // an error ends the connection, or is an answer as well
	if !c.amqp.IsClosed() && c.blocked.CompareAndSwap(presumed, nil) {
		c.log.Info("rabbitmq takes messages again", "address", c.address)
		c.wake()
	}
}

// publishNowhere publishes one byte for the queue without a name, which does not exist, and waits until
// the broker has confirmed or refused it or the connection has ended.
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

// watch follows the connection's state until it has ended and all its channels with it.
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

// wake has every call on the connection look for answers.
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

// usable returns the answer for messages that cannot be sent now, nil if they can.
func (c *connection) usable() error {
	if c.amqp.IsClosed() {
		return c.lost()
	}
	if reason := c.blocked.Load(); reason != nil {
		return unavailable("broker blocked", "RabbitMQ at %s has blocked publishing (%s): free memory or disk on the broker", c.address, *reason)
	}
	return nil
}

// lost returns the answer for messages that were not sent on a connection that has ended.
func (c *connection) lost() error {
	var cause error
	if server := c.cause.Load(); server != nil && server.Server {
		cause = server
	} else {
		_, ended := c.socket.heard()
		cause = stable(ended)
	}
	if cause != nil {
		return unavailable("connection lost", "the connection to RabbitMQ at %s was lost: %w", c.address, cause)
	}
	return unavailable("connection lost", "the connection to RabbitMQ at %s has ended", c.address)
}

// ask waits for a question to the broker and its answer, which the library cannot break off. When
// ctx ends first, ask returns ErrNotAttempted and leaves them to end with the answer or the
// connection, which it ends if nothing at all was heard on it for too long.
func (c *connection) ask(ctx context.Context, question func(*amqp091.Connection) error) error {
	heard, begun := c.socket.received.Load(), time.Now()
	done := make(chan error, 1)
	c.running.Go(func() { done <- question(c.amqp) })
	select {
	case err := <-done:
		if err != nil && c.amqp.IsClosed() {
			return c.lost()
		}
		return err
	case <-ctx.Done():
		// One that is blocked is not read by the broker, and says nothing for as long as the alarm lasts.
		if c.socket.received.Load() == heard && time.Since(begun) >= silence && c.blocked.Load() == nil {
			c.socket.fail(errSilence)
		}
		return publisher.ErrNotAttempted
	}
}

// silence is how long a broker may take for the first sign of an answer, when it was asked after a message was not confirmed in
// time or in a ping. A connection that is silent for longer is dead, as one that a firewall between has forgotten: heartbeats
// would take half a minute to find that out.
const silence = time.Second

var errSilence = errors.New("it has fallen silent")

// silent reports whether the connection was ended because nothing came from the broker.
func (c *connection) silent() bool {
	broken := c.socket.broken.Load()
	return broken != nil && errors.Is(*broken, errSilence)
}

// check finds out, in the background, whether the broker still answers on the connection.
func (c *connection) check() {
	if !c.checking.CompareAndSwap(false, true) {
		return
	}
	c.running.Go(func() {
		defer c.checking.Store(false)
		ctx, cancel := context.WithTimeout(context.Background(), silence)
		defer cancel()
		_ = c.ask(ctx, greet)
	})
}

// greet asks for something that changes nothing.
func greet(conn *amqp091.Connection) error {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	return ch.Close()
}

// ping returns nil when the broker answers and would take messages for the exchange.
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

// checkExchange looks for the exchange before it is first used: publishing to a missing one closes
// the channel and leaves everything on it without an answer. The default exchange is always there.
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

// maxExchanges is how many exchanges are remembered; rows may name any number.
const maxExchanges = 1000

// forgetExchanges has exchanges looked for again before they are used.
func (c *connection) forgetExchanges() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.exchanges)
}

// lookFor asks for the exchange on a channel of its own, which the broker closes if there is none. That
// is held against what scope says.
func (c *connection) lookFor(ctx context.Context, name string, scope publisher.Scope) error {
	err := c.ask(ctx, func(conn *amqp091.Connection) error {
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		// The kind is not looked at.
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

// take returns a channel for one call alone, to be given back with put.
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
		// One that is opened too late for this call serves another.
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

// put takes a channel back. One with unanswered messages is closed in the background: late answers
// must not be taken for those of a later call.
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

// close says goodbye to the broker, for at most about closeTimeout. That the broker does not hear it, or that the connection
// breaks meanwhile, is no failure: calls that are under way get answers of their own.
func (c *connection) close() {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	// The deadline that the library sets is lifted again by each frame that arrives.
	kill := time.AfterFunc(closeTimeout, func() { _ = c.socket.Close() })
	defer kill.Stop()
	_ = c.amqp.CloseDeadline(time.Now().Add(closeTimeout))
}
