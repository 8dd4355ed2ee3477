package kafka

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

const (
	// askTimeout bounds small requests for metadata or a producer id. A broker needs some milliseconds for them, and
	// longer in the first moments after its start.
	askTimeout = 3 * time.Second
	// hedge is how long a broker may take to answer a question before another broker is asked as well.
	hedge = 250 * time.Millisecond
)

// ask puts a question to any broker. It begins with the connected ones and goes on to further ones until an answer
// comes. See [request] for dial.
func (c *cluster) ask(ctx context.Context, question protocol.Message, dial bool) (protocol.Message, error) {
	return c.askOf(ctx, c.candidates(), question, dial)
}

// askOf puts a question to the brokers in turn. Each one is asked when the previous ones have failed or take long. The
// first answer counts, and later ones are ignored.
func (c *cluster) askOf(ctx context.Context, brokers []*broker, question protocol.Message, dial bool) (
	protocol.Message, error,
) {
	deadline, _ := ctx.Deadline()
	limit := dialTimeout + askTimeout
	if !deadline.IsZero() {
		limit = min(limit, time.Until(deadline)-2*least) // leaves time to return the failure
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	another := time.NewTicker(hedge)
	defer another.Stop()
	life := c.publisher.life
	back := make(chan *request, len(brokers))
	asked, waiting := 0, 0
	next := func() {
		b, r := brokers[asked], &request{message: question, deadline: deadline, dial: dial}
		if !life.Start(func() { b.send(life.Ctx, r); back <- r }) {
			return // closed
		}
		asked, waiting = asked+1, waiting+1
		late.Reset(limit)
		another.Reset(hedge)
	}
	next()
	var failure error
	for {
		more := asked < len(brokers) && !over(ctx)
		select {
		case r := <-back:
			if r.ending == replied {
				return r.response, nil
			}
			failure = r.err
			if waiting--; more {
				next()
			} else if waiting == 0 {
				return nil, failure
			}
			continue
		case <-another.C:
			if more {
				next()
			}
			continue
		case <-late.C:
		case <-ctx.Done():
		case <-life.Ctx.Done():
		}
		if failure == nil {
			silent := c.publisher.attempt(brokers[max(asked-1, 0)].address).Silent()
			silent.Cause = ctx.Err()
			failure = silent
		}
		return nil, failure
	}
}

// candidates returns the brokers in the order in which to ask them: those that are connected, then those that must be
// dialled, and at last those in trouble. Within a group the order is random, which spreads the questions of many
// relays.
func (c *cluster) candidates() []*broker {
	c.mu.Lock()
	defer c.mu.Unlock()
	ranks, brokers := make(map[*broker]int, len(c.brokers)), make([]*broker, 0, len(c.brokers))
	for _, b := range c.brokers {
		brokers = append(brokers, b)
		unanswered := slices.ContainsFunc(b.busy, func(r *request) bool {
			return r.jobs == nil && time.Since(r.sent) > hedge
		})
		switch {
		case b.isAway() || b.failed != nil || unanswered:
			ranks[b] = 2
		case len(b.idle)+len(b.busy) == 0:
			ranks[b] = 1
		}
	}
	rand.Shuffle(len(brokers), func(i, j int) { brokers[i], brokers[j] = brokers[j], brokers[i] })
	slices.SortStableFunc(brokers, func(a, b *broker) int { return ranks[a] - ranks[b] })
	return brokers
}

func unsupported(question protocol.Message) error {
	return fmt.Errorf("%s: %w", question.ApiKey(), kafkago.UnsupportedVersion)
}
