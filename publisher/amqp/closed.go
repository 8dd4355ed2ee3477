package amqp

import (
	"context"
	"slices"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A doubt is about a message that was sent and lost its answer, because the broker closed the channel.
type doubt struct {
	times  int  // how often that has happened
	copied bool // the broker may have the message
}

// doubt returns the doubt about a message.
func (b *batch) doubt(i int) *doubt {
	if b.doubts[i] == nil {
		b.doubts[i] = &doubt{}
	}
	return b.doubts[i]
}

// closed decides what the end of a channel means for the messages that were in flight on it. It returns the answer for
// messages that were not sent, or nil if they can be sent on another channel.
func (b *batch) closed(ctx context.Context, ch *channel) error {
	for _, f := range b.flights {
		select {
		case <-f.confirm.Done():
		case <-ctx.Done():
			return publisher.ErrNotAttempted
		}
	}
	b.settle(ch) // messages that were confirmed just before
	conn := ch.conn
	if conn.amqp.IsClosed() || ch.cause == nil {
		return b.disconnected(ctx, conn)
	}
	conn.refused.CompareAndSwap(false, ch.cause.Code == amqp091.AccessRefused)
	if ch.cause.Code == amqp091.NotFound {
		conn.exchanges.Clear() // each is looked for again before it is used
	}
	b.trial = false
	if len(b.flights) == 1 {
		i := b.flights[0].message
		b.flights = b.flights[:0]
		b.convict(i, ch.cause)
		return nil
	}
	for _, f := range b.flights {
		d := b.doubt(f.message)
		d.times, d.copied = d.times+1, true
		b.alone = append(b.alone, f.message)
	}
	b.flights, b.urgent = b.flights[:0], len(b.alone) > 0
	return nil
}

// disconnected returns the answer for messages that were not sent when the connection has ended. RabbitMQ ends a
// connection with NOT_ALLOWED because of a limit or of the virtual host, and never because of a message: those in
// flight have lost their answers for the relay's own doing, and nothing is held against them.
func (b *batch) disconnected(ctx context.Context, conn *connection) error {
	select {
	case <-conn.ended: // now the reason is known
	case <-ctx.Done():
	}
	err := conn.lost()
	if server := conn.cause.Load(); server != nil && server.Server && server.Code == amqp091.NotAllowed {
		for _, f := range b.flights {
			b.answer(f.message, publisher.Republish(err))
		}
		b.flights = b.flights[:0]
	}
	return err
}

// convict answers the message because of which the broker has closed the channel.
func (b *batch) convict(i int, cause *amqp091.Error) {
	to := b.route(i)
	err := guilty(to.exchange, &b.messages[i], cause)
	if publisher.ClassOf(err) == publisher.Topology {
		b.p.routes.begin(to, 0) // its next try closes a channel under nothing else
	}
	if d := b.doubts[i]; d != nil {
		d.copied = false
	}
	b.urgent = b.urgent && len(b.alone) > 0
	b.condemn(i, err)
}

// acquit makes messages ready after one that was alone has been accepted: those of its route that are no larger, if
// they have lost their answers once, and those that go alone because of their size or route, which are looked at again.
// Messages that have lost their answers twice go alone in any case, because the broker may have had another reason.
func (b *batch) acquit(accepted int) {
	if !b.trial {
		return
	}
	size, to := len(b.messages[accepted].Payload), b.route(accepted)
	b.alone = slices.DeleteFunc(b.alone, func(i int) bool {
		d := b.doubts[i]
		free := d == nil || d.times == 0 ||
			d.times == 1 && len(b.messages[i].Payload) <= size && b.route(i) == to
		if free {
			b.ready = append(b.ready, i)
		}
		return free
	})
	b.urgent = b.urgent && len(b.alone) > 0
}

// unproven is the payload size in bytes above which a message is not sent together with others until one as large has
// been accepted. Lower limits are not used in practice.
const unproven = 16 << 10

// carries reports whether the broker is known to accept a payload of this size.
func (c *connection) carries(size int) bool {
	return size <= unproven || int64(size) <= c.largest.Load()
}

// accepted notes that the broker has accepted a payload of this size.
func (c *connection) accepted(size int) {
	c.accepts.Add(1)
	if size > unproven && int64(size) > c.largest.Load() {
		c.largest.Store(int64(size))
	}
}
