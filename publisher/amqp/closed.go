package amqp

import (
	"context"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// closed decides what the end of a channel means for the messages that were in flight on it. If there are several, one
// of them, or its route, is the reason. Their routes begin anew with one message alone, and a message that has lost two
// channels goes alone itself, so that there are at most two copies of each. closed returns the answer for messages that
// were not sent, or nil if they can be sent on another channel.
//
// An earlier version sent such messages again one by one within the call, and did not report them: with 50,000
// messages, six revocations of the right to one topic left 595 copies that nothing counted, most of them of other
// topics. Now each of them is answered as republished.
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
	// The login may be outdated. The keeper compares it, and renews a token.
	if ch.cause.Code == amqp091.AccessRefused {
		conn.refused.Store(true)
		b.p.keeper.Look()
	}
	if ch.cause.Code == amqp091.NotFound {
		conn.exchanges.Clear() // each is looked for again before it is used
	}
	// Nothing else was on the channel, so the reason is this message or its route.
	if len(b.flights) == 1 {
		i := b.flights[0].message
		b.flights = b.flights[:0]
		b.convict(i, ch.cause)
		return nil
	}
	for _, f := range b.flights {
		i := f.message
		b.copied[i]++
		b.p.routes.begin(b.route(i), 0)
		b.held = append(b.held, i)
	}
	b.flights = b.flights[:0]
	return nil
}

// disconnected returns the answer for messages that were not sent when the connection has ended. RabbitMQ ends a
// connection with NOT_ALLOWED because of a limit or of the virtual host, and never because of a message: those in
// flight have lost their answers for the relay's own doing, and nothing is held against them. While such an end counted
// against them, a limit of one channel made 17 of 2,000 good rows fail whose only attempt was spent in this way.
func (b *batch) disconnected(ctx context.Context, conn *connection) error {
	select {
	case <-conn.Ended: // now the reason is known
	case <-ctx.Done():
	}
	err := conn.Lost()
	if server := conn.cause.Load(); server != nil && server.Server && server.Code == amqp091.NotAllowed {
		for _, f := range b.flights {
			b.answer(f.message, publisher.Republish(err))
		}
		b.flights = b.flights[:0]
	}
	return err
}

// convict answers the message because of which the broker has closed the channel. It is not at the broker, so it does
// not count as a copy.
func (b *batch) convict(i int, cause *amqp091.Error) {
	to := b.route(i)
	err := guilty(to.exchange, &b.messages[i], cause)
	if class := publisher.ClassOf(err); class == publisher.Topology {
		b.p.routes.begin(to, 0) // its next try closes a channel under nothing else
	} else if class == publisher.Permanent { // probably for its size; the limit may be less
		b.p.large.Store(min(b.p.large.Load(), max(int64(len(b.messages[i].Payload))/2, leastLarge)))
	}
	delete(b.copied, i)
	b.condemn(i, err)
}
