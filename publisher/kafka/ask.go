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
	// askTimeout bounds small requests for metadata or a producer id.
	askTimeout = 3 * time.Second
	// hedge is how long a broker may take to answer a question before another broker is asked as well.
	hedge = 250 * time.Millisecond
)

// ask puts a question to any broker. It begins with the connected ones and goes on to further ones until an answer
// comes. The first answer counts. See [request] for dial.
func (c *cluster) ask(ctx context.Context, question protocol.Message, dial bool) (protocol.Message, error) {
	return c.publisher.ask(ctx, c.candidates(), question, dial)
}

// ask puts a question to this broker.
func (b *broker) ask(ctx context.Context, question protocol.Message, dial bool) (protocol.Message, error) {
	return b.publisher.ask(ctx, []*broker{b}, question, dial)
}

// ask puts a question to the brokers in turn. Each one is asked when the previous ones have failed or take long. Later
// answers are ignored.
func (p *Publisher) ask(ctx context.Context, brokers []*broker, question protocol.Message,
	dial bool,
) (protocol.Message, error) {
	deadline, _ := ctx.Deadline()
	limit := dialTimeout + askTimeout
	if !deadline.IsZero() {
		limit = min(limit, time.Until(deadline)-2*least) // leaves time to return the failure
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	another := time.NewTicker(hedge)
	defer another.Stop()
	back := make(chan *request, len(brokers))
	asked, waiting := 0, 0
	next := func() {
		brokers[asked].post(&request{message: question, back: back, deadline: deadline, dial: dial})
		asked, waiting = asked+1, waiting+1
		late.Reset(limit)
		another.Reset(hedge)
	}
	next()
	var failure error
	for {
		select {
		case r := <-back:
			if r.ending == replied {
				return r.response, nil
			}
			failure = r.err
			if waiting--; asked < len(brokers) && !over(ctx) {
				next()
			} else if waiting == 0 {
				return nil, failure
			}
			continue
		case <-another.C:
			if asked < len(brokers) && !over(ctx) {
				next()
			}
			continue
		case <-late.C:
		case <-ctx.Done():
		case <-p.life.over:
		}
		if failure == nil {
			silent := p.attempt(brokers[asked-1].address).Silent()
			silent.Cause = ctx.Err()
			failure = silent
		}
		return nil, failure
	}
}

// candidates returns the brokers in the order in which to ask them.
func (c *cluster) candidates() []*broker {
	c.mu.Lock()
	brokers := make([]*broker, 0, len(c.brokers))
	for _, b := range c.brokers {
		brokers = append(brokers, b)
	}
	c.mu.Unlock()
	rand.Shuffle(len(brokers), func(i, j int) { brokers[i], brokers[j] = brokers[j], brokers[i] })
	rank := func(b *broker) int {
		switch s := b.standing(); {
		case s.isAway() || s.failed != nil || !s.waits.IsZero() && time.Since(s.waits) > hedge:
			return 2
		case s.connected:
			return 0
		default:
			return 1
		}
	}
	slices.SortStableFunc(brokers, func(a, b *broker) int { return rank(a) - rank(b) })
	return brokers
}

func unsupported(question protocol.Message) error {
	return fmt.Errorf("%s: %w", question.ApiKey(), kafkago.UnsupportedVersion)
}
