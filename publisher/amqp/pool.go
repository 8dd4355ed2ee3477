package amqp

import (
	"context"
	"errors"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// mostChannels is the number of channels of a connection: for the batches that the relay publishes at a time, and for
// questions. Calls that find no free channel wait for one. More channels are not faster: the broker is the limit.
const mostChannels = 5

// oneTooMany are the codes with which the broker ends a connection because of the number of its channels.
var oneTooMany = []int{amqp091.NotAllowed, amqp091.ChannelError, amqp091.ResourceError}

// fill opens the channels of the connection, at most so many, before anything else is sent. It returns how many were
// opened. RabbitMQ's limit of channels, for a user or a node, may be shared with other clients, and the answer to one
// channel too many is that it closes the connection with all that is on the wire: the error is then the broker's. If a
// channel is refused without the end of the connection, for example by a proxy, the connection works with those that it
// has.
func (c *connection) fill(most int) (int, error) {
	if allowed := int(c.amqp.Config.ChannelMax); allowed > 0 && allowed < most {
		most, c.limit = allowed, "channel_max of the connection"
	}
	opened := make([]*channel, 0, most)
	for len(opened) < most {
		ch, err := newChannel(c)
		if err == nil {
			opened = append(opened, ch)
			continue
		}
		if c.amqp.IsClosed() {
			<-c.Ended // now the reason is known
			if server := c.cause.Load(); server != nil && server.Server {
				err = server
			}
			return len(opened), err
		}
		if len(opened) == 0 {
			return 0, err
		}
		most, c.limit = len(opened), errtext.Line(err) // of something on the way
	}
	c.pool = make(chan *channel, most)
	for _, ch := range opened {
		c.pool <- ch
	}
	return most, nil
}

// take returns a channel for one call alone, which must give it back with put. It waits for a channel, for the end of
// the connection or for that of ctx.
func (c *connection) take(ctx context.Context) (*channel, error) {
	for {
		select {
		case ch := <-c.pool:
			if ch != nil && !ch.amqp.IsClosed() {
				c.mu.Lock()
				c.busy[ch] = struct{}{}
				c.mu.Unlock()
				return ch, nil
			}
			// A channel that is opened too late for this call serves another one.
			if err := c.ask(ctx, c.open); err != nil {
				return nil, c.failed("open channel", err)
			}
		case <-c.Ended:
			return nil, c.Lost()
		case <-ctx.Done():
			return nil, publisher.ErrNotAttempted
		}
	}
}

// open adds a channel to the pool, in place of one that has ended. It puts something into the pool in any case, so that
// the number of places stays the same.
func (c *connection) open() error {
	ch, err := newChannel(c)
	c.pool <- ch
	return err
}

// put takes a channel back. A channel with unanswered messages is closed, because late answers must not be taken for
// those of a later call; if the answers are kept, only after them. A place that becomes free is marked by nil, and the
// next call that takes it opens a channel.
func (c *connection) put(ch *channel, clean bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.busy, ch)
	ch.writer.forget()
	switch {
	case ch.amqp.IsClosed():
		c.pool <- nil
	// Everything on it is answered, so the next call may use it.
	case clean && !ch.stale.Load():
		c.pool <- ch
	// The broker still owes answers on it. Another channel takes its place, unless a limit forbids one more.
	case ch.kept > 0 && c.limit == "":
		ch.left = true
		c.pool <- nil
	default:
		c.p.life.Go(func() {
			_ = ch.amqp.Close()
			c.pool <- nil // now, because a limit counts channels
		})
	}
}

// onChannel asks the broker something on a channel that no call uses. If ctx ends first, the channel comes back to the
// pool with the answer.
func (c *connection) onChannel(ctx context.Context, question func(*amqp091.Channel) error) error {
	ch, err := c.take(ctx)
	if err != nil {
		return err
	}
	return c.ask(ctx, func() error {
		defer c.put(ch, true)
		return question(ch.amqp)
	})
}

// onPlainChannel asks the broker something on a channel that is not in confirm mode. Doctor publishes in a transaction
// and rolls it back, which a channel in confirm mode does not allow.
func (c *connection) onPlainChannel(ctx context.Context, question func(*amqp091.Channel) error) error {
	return c.onChannel(ctx, func(ch *amqp091.Channel) error {
		if err := ch.Close(); err != nil { // a limit counts channels
			return err
		}
		plain, err := c.amqp.Channel()
		if err != nil {
			return err
		}
		defer plain.Close()
		return question(plain)
	})
}

// checkExchange looks for the exchange before it is first used, or again, on a channel that the broker closes if the
// exchange is missing. named means that messages name it themselves. Publishing to a missing exchange closes the
// channel and leaves everything on it without an answer. The default exchange always exists. An exchange that was seen
// counts as there until a channel ends with NOT_FOUND.
func (c *connection) checkExchange(ctx context.Context, name string, named, again bool) error {
	if _, seen := c.exchanges.Load(name); name == "" || seen && !again {
		return nil
	}
	err := c.onChannel(ctx, func(ch *amqp091.Channel) error {
		// The broker does not compare the kind.
		return ch.ExchangeDeclarePassive(name, amqp091.ExchangeTopic, true, false, false, false, nil)
	})
	if err == nil {
		c.exchanges.Store(name, nil)
		return nil
	}
	if answer, ok := errors.AsType[*amqp091.Error](err); ok {
		switch answer.Code {
		case amqp091.NotFound:
			return noExchange(named, name, "no exchange",
				"the exchange %q does not exist on RabbitMQ at %s: declare it", name, c.address)
		case amqp091.AccessRefused:
			c.refused.Store(true)
			c.p.keeper.Look()
			return noExchange(named, name, "exchange refused", "RabbitMQ at %s refuses the exchange %q: %w", c.address,
				name, answer)
		}
	}
	return c.failed("check exchange", err)
}
