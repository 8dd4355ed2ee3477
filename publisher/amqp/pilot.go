package amqp

import (
	"context"
	"time"
)

// The first message of a channel for a quorum queue makes RabbitMQ introduce the channel to the queue's leader. If the
// leader's node does not answer, the channel does nothing else until RabbitMQ has given that node up, which takes a
// minute or more. Everything sent after the message waits. While nodes may be in that state, each route of a channel is
// therefore tried by a single message, the pilot, before anything else is sent.

const (
	// waryFor is how long channels are treated with care after a sign of such a node. RabbitMQ gives a node up within
	// five quarters of net_ticktime, which is a minute by default.
	waryFor = 90 * time.Second
	// mostPilots is the maximum number of routes of a channel that are tried. If there are more, for example with a
	// routing key for each entity, the rest go at once, because each pilot takes a round trip.
	mostPilots = 64
)

// beWary makes calls try the routes of channels one by one for a while.
func (c *connection) beWary() { c.waryUntil.Store(time.Now().Add(waryFor).UnixNano()) }

// untried reports whether a route must be tried before anything else is sent on it.
func (ch *channel) untried(way route) bool {
	until := ch.conn.waryUntil.Load()
	if until == 0 || time.Now().UnixNano() > until || len(ch.tried) >= mostPilots {
		return false
	}
	_, tried := ch.tried[way]
	return !tried
}

// pilot is the message by which a call tries a route.
type pilot struct {
	flies    bool
	way      route
	since    time.Time
	received int64 // bytes received by the connection before the pilot
}

// launchPilot notes that a message is the first on its route. Nothing else is sent before it is answered. In the
// meantime the broker is asked something else, so that its silence can be distinguished from that of the channel.
func (b *batch) launchPilot(ctx context.Context, ch *channel, way route) {
	b.pilot = pilot{flies: true, way: way, since: time.Now(), received: ch.conn.socket.received.Load()}
	ch.conn.check(ctx)
}

// landPilot notes that the pilot's route works, or that it got an answer of another kind.
func (b *batch) landPilot(ch *channel, way route) {
	if !b.pilot.flies || b.pilot.way != way {
		return
	}
	b.pilot = pilot{}
	if ch.tried == nil {
		ch.tried = map[route]struct{}{}
	}
	ch.tried[way] = struct{}{}
}

// lookForPilot gives up the route that is being tried, and the channel with it, if the broker answers otherwise.
func (b *batch) lookForPilot(ch *channel) {
	p := b.pilot
	if !p.flies || time.Since(p.since) < glance || ch.conn.socket.received.Load() == p.received {
		return
	}
	b.pilot, b.forsaken = pilot{}, true
	b.giveUp(ch, p.way)
}
