package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
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

// ask puts a question to any broker. It begins with the connected ones and goes on to further ones until an answer
// comes. See [broker.connection] for insist. It blocks until then, for six seconds at most. Each broker knows the whole
// cluster, so the first answer is as good as any.
func (c *cluster) ask(ctx context.Context, question protocol.Message, insist bool) (protocol.Message, error) {
	return c.askOf(ctx, c.candidates(), question, insist)
}

// askOf puts a question to the brokers in turn. Each one is asked when the previous ones have failed or take long. The
// first answer counts, and later ones are ignored. The lost questions are given up with their connections, on which
// their answers may still arrive.
func (c *cluster) askOf(ctx context.Context, brokers []*broker, question protocol.Message, insist bool) (
	protocol.Message, error,
) {
	life := c.publisher.life
	if !life.Enter() {
		return nil, publisher.ErrClosed
	}
	defer life.Leave()
	limit := dialTimeout + askTimeout
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline)-2*least) // leaves time to return the failure
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer context.AfterFunc(life.Ctx, cancel)() //nolint:contextcheck // Close ends every question
	var failure error
	race := connect.Race[protocol.Message]{
		Drop: func(protocol.Message) {},
		Open: func(ctx context.Context, i int) (protocol.Message, error) {
			return brokers[i].ask(ctx, question, insist)
		},
		Ended: func(i int, err error) {
			// The last failure before the end of time is reported: those after it only say that the time is over.
			if failure == nil || ctx.Err() == nil {
				failure = err
			}
			if errors.Is(failure, context.DeadlineExceeded) || errors.Is(failure, context.Canceled) {
				silent := c.publisher.attempt(brokers[i].address).Silent()
				silent.Cause = ctx.Err()
				failure = silent
			}
		},
	}
	for i := range brokers {
		race.Turns = append(race.Turns, i)
	}
	answer, answered := race.Run(ctx)
	switch {
	case answered:
		return answer, nil
	case life.Over():
		return nil, publisher.ErrClosed
	}
	return nil, failure
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
			return nil, b.cluster.publisher.explain(b.address, stepRequest, err)
		}
	}
}

// candidates returns the brokers in the order in which to ask them: those that are connected, then those that must be
// dialled, and at last those in trouble. Within a group the order is random, as that of a map is, which spreads the
// questions of many relays.
func (c *cluster) candidates() []*broker {
	c.mu.Lock()
	defer c.mu.Unlock()
	rank := func(b *broker) int {
		switch {
		case b.isAway() || b.failed != nil:
			return 2
		case len(b.idle) == 0:
			return 1
		}
		return 0
	}
	return slices.SortedStableFunc(maps.Values(c.brokers), func(a, b *broker) int { return rank(a) - rank(b) })
}
