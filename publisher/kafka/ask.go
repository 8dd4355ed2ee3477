package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/connect"
)

// askTimeout bounds small requests for metadata or a producer id. A broker needs some milliseconds for them, and longer
// in the first moments after its start.
const askTimeout = 3 * time.Second

// ask puts a question to any broker, the connected ones first: each broker knows the whole cluster, so one answer is as
// good as another. See [broker.connection] for insist.
func (c *cluster) ask(ctx context.Context, question protocol.Message, insist bool) (protocol.Message, error) {
	return c.askOf(ctx, c.candidates(), question, insist)
}

// askOf puts a question to the brokers in turn, see [connect.InTurn].
func (c *cluster) askOf(ctx context.Context, brokers []*broker, question protocol.Message, insist bool) (
	protocol.Message, error,
) {
	life := c.publisher.life
	if !life.Enter() {
		return nil, publisher.ErrClosed
	}
	defer life.Leave()
	limit := time.Duration(len(brokers))*patience + dialTimeout + askTimeout
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline)-2*least) // leaves time to return the failure
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer context.AfterFunc(life.Ctx, cancel)() //nolint:contextcheck // Close ends every question
	one := func(turn context.Context, b *broker) (protocol.Message, error) {
		answer, err := b.ask(turn, question, insist)
		if err != nil && errors.Is(err, turn.Err()) {
			silent := c.publisher.attempt(b.address).Silent()
			silent.Cause = ctx.Err()
			err = silent
		}
		return answer, err
	}
	answer, err := connect.InTurn(ctx, patience, brokers, one)
	if err != nil && life.Over() {
		err = publisher.ErrClosed
	}
	return answer, err
}

// ask puts a question to the broker. If a connection has died while it was idle, the question is sent again on another
// one. Questions may be repeated, unlike batches: the answer changes nothing at the broker. A new connection that fails
// at its first question is explained, because then the login or the listener may be at fault.
func (b *broker) ask(ctx context.Context, question protocol.Message, insist bool) (protocol.Message, error) {
	b.cluster.mu.Lock()
	defer b.cluster.mu.Unlock()
	for {
		c, err := b.connection(ctx, insist)
		if err != nil {
			return nil, err
		}
		if _, known := c.versions[question.ApiKey()]; !known {
			b.put(c)
			return nil, fmt.Errorf("%s: %w", question.ApiKey(), kafkago.UnsupportedVersion)
		}
		sent := time.Now()
		b.cluster.mu.Unlock()
		answer, err := c.roundTrip(ctx, question, askTimeout)
		b.cluster.mu.Lock()
		if err == nil {
			b.put(c)
			return answer, nil
		}
		switch b.spoil(c, sent); {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case connect.TimedOut(err):
			return nil, b.mute()
		case !c.reused:
			return nil, b.cluster.publisher.explain(b.address, err)
		}
	}
}

// candidates returns the brokers in the order in which to ask them: those that are connected, those that must be
// dialled, and at last those in trouble, each of which may take its whole turn. Within a group the order is random, as
// that of a map is, which spreads the questions of many relays.
func (c *cluster) candidates() []*broker {
	c.mu.Lock()
	defer c.mu.Unlock()
	var first, next, last []*broker
	for _, b := range c.brokers {
		switch {
		case b.isAway() || b.failed != nil:
			last = append(last, b)
		case len(b.idle) == 0:
			next = append(next, b)
		default:
			first = append(first, b)
		}
	}
	return slices.Concat(first, next, last)
}
