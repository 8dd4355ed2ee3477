package amqp

import (
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// If a queue does not confirm a message, its call gives the message up, so that other messages do not wait for it. The
// message is still on its way: in most cases RabbitMQ confirms it once the queue has found another leader. The
// connection therefore keeps the confirm, and a later call that publishes the message waits for the confirm instead of
// sending a copy.

const (
	// glance is how often a call checks for late messages.
	glance = 250 * time.Millisecond
	// glances is the number of checks without a confirm after which a route is given up.
	glances = 4
	// keptFor is how long a confirm is waited for after that. The message is then sent again on another channel,
	// because RabbitMQ 3 may have sent it to a leader that was gone.
	keptFor = 5 * time.Second
)

// A kept message was sent, and was given up before the broker answered.
type kept struct {
	message int // index in the batch of the call that has it
	channel *channel
	confirm *amqp091.DeferredConfirmation
	content uint64 // hash of the payload
	until   time.Time
	accepts int64 // accepts of the connection when the message was first kept
	tick    int   // as in flight
}

// keptID identifies a kept message, or one that the broker returned.
type keptID struct {
	to route
	id string
}

// content returns a hash of the payload. It shows whether a message was corrected in the table since it was sent.
func (c *connection) content(m *publisher.Message) uint64 { return maphash.Bytes(c.seed, m.Payload) }

// keep keeps a message that a call gives up.
func (c *connection) keep(k *kept, to route, m *publisher.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.until.IsZero() {
		k.until, k.content, k.accepts = time.Now().Add(keptFor), c.content(m), c.accepts.Load()
		k.channel.kept++
	}
	if c.kept == nil {
		c.kept = map[keptID]*kept{}
	}
	c.kept[keptID{route{strings.Clone(to.exchange), strings.Clone(to.topic)}, strings.Clone(m.ID)}] = k
}

// adopt takes over a kept message, if it is the message that would be sent now.
func (c *connection) adopt(to route, m *publisher.Message) *kept {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.kept) == 0 {
		return nil
	}
	k := c.kept[keptID{to, m.ID}]
	if k == nil {
		return nil
	}
	delete(c.kept, keptID{to, m.ID})
	if time.Now().After(k.until) {
		c.waitedInVain(k)
	} else if !k.channel.amqp.IsClosed() && k.content == c.content(m) {
		return k
	}
	c.leave(k.channel)
	return nil
}

// waitedInVain notes that the broker has not answered a kept message in time. If the broker has confirmed no other
// message since, the node may have lost contact with the other nodes.
func (c *connection) waitedInVain(k *kept) {
	if c.accepts.Load() == k.accepts {
		c.futile.Store(k.accepts + 1)
	}
}

// forgetKept removes messages that no call has published again.
func (c *connection) forgetKept() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for id, k := range c.kept {
		if now.After(k.until) || k.channel.amqp.IsClosed() {
			delete(c.kept, id)
			c.leave(k.channel)
		}
	}
}

// left notes that the broker has answered a kept message.
func (c *connection) left(k *kept) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leave(k.channel)
}

// leave removes a kept message from its channel, and closes the channel in the background after the last one. c.mu is
// held.
func (c *connection) leave(ch *channel) {
	ch.kept--
	if _, busy := c.busy[ch]; ch.kept == 0 && !busy && !ch.amqp.IsClosed() {
		c.running.Go(func() { _ = ch.amqp.Close() })
	}
}

// settleKept answers the messages of earlier calls that the broker has answered since. Messages that it will not answer
// are sent again.
func (b *batch) settleKept() {
	b.adopted = slices.DeleteFunc(b.adopted, func(k *kept) bool {
		to, now := b.route(k.message), time.Now()
		select {
		case <-k.confirm.Done():
			k.channel.collect()
		default:
			if now.Before(k.until) && !k.channel.amqp.IsClosed() {
				return false
			}
		}
		given := k.channel.givenBack(to, b.messages[k.message].ID)
		switch {
		case given != nil:
			k.channel.forgetReturns(*given)
			b.repeatable(k.message, b.named(k.message, returned(given, b.names)))
		case k.confirm.Acked():
			k.channel.conn.accepts.Add(1)
			b.noteConfirmed(k.message)
			if b.careful {
				b.caution.accepted(b.way(k.message))
			}
			b.answer(k.message, nil)
		case k.channel.amqp.IsClosed() || !now.Before(k.until):
			k.channel.conn.waitedInVain(k)
			b.ready = append(b.ready, k.message)
		default:
			b.repeatable(k.message, b.named(k.message, nacked(to)))
		}
		k.channel.conn.left(k)
		return true
	})
}

// look is called repeatedly while a call waits. If nothing has come from the broker, it starts a check of the
// connection. Otherwise it gives up the routes that confirm nothing.
func (b *batch) look(ctx context.Context, ch *channel) {
	received := ch.conn.socket.received.Load()
	silent := received == b.received
	b.received = received
	b.tick++
	if silent {
		ch.conn.check(ctx)
		return
	}
	b.lookForPilot(ch)
	if b.suspects.trial || ch.conn.usable() != nil {
		return
	}
	oldest := map[route]int{}
	since := func(message, tick int) {
		to := b.way(message)
		if known, ok := oldest[to]; !ok || tick < known {
			oldest[to] = tick
		}
	}
	for _, f := range b.flights {
		since(f.message, f.tick)
	}
	for _, k := range b.adopted {
		since(k.message, k.tick)
	}
	for to, tick := range oldest {
		if b.tick-max(tick, b.confirmed[to]) >= glances {
			b.giveUp(ch, to)
		}
	}
}

// noteConfirmed notes that a message's route confirms, in a call that has begun to check.
func (b *batch) noteConfirmed(i int) {
	if b.tick == 0 {
		return
	}
	if b.confirmed == nil {
		b.confirmed = map[route]int{}
	}
	b.confirmed[b.way(i)] = b.tick
}

// giveUp answers the messages of a route that confirms nothing, and keeps those that were sent.
func (b *batch) giveUp(ch *channel, way route) {
	ch.conn.forgetKept()
	ch.conn.beWary()
	if b.routes == nil {
		b.routes = map[route]error{}
	}
	took := b.took()[way]
	b.caution.begin(way, true)
	give := func(k *kept) {
		to := b.route(k.message)
		ch.conn.keep(k, to, &b.messages[k.message])
		b.routes[way] = b.named(k.message, stalled(to))
		if took { // the message may be at fault
			b.answer(k.message, b.named(k.message, late(to)))
		} else {
			b.answer(k.message, b.routes[way])
		}
	}
	b.flights = slices.DeleteFunc(b.flights, func(f flight) bool {
		if b.way(f.message) != way {
			return false
		}
		if b.flying != nil {
			b.landed(way)
		}
		b.given, ch.stale = b.given+1, true
		give(&kept{message: f.message, channel: ch, confirm: f.confirm})
		return true
	})
	b.adopted = slices.DeleteFunc(b.adopted, func(k *kept) bool {
		if b.way(k.message) != way {
			return false
		}
		give(k)
		return true
	})
}

// keepAdopted keeps the messages of earlier calls that are still unanswered at the end of this one.
func (b *batch) keepAdopted(err error) {
	for _, k := range b.adopted {
		to := b.route(k.message)
		k.channel.conn.keep(k, to, &b.messages[k.message])
		if errors.Is(err, publisher.ErrNotAttempted) {
			b.answer(k.message, b.named(k.message, stalled(to)))
		} else {
			b.answer(k.message, unanswered(err))
		}
	}
	b.adopted = nil
}
