package nats

import (
	"context"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A server does not tell its clients that its max_payload, or that of their account, was raised, and nats.go refuses
// what is larger than the server's greeting allowed. Before a message fails for its size, the servers are therefore
// asked for their present limits, by connecting to them.

const (
	// limitPause is the minimum time between two such questions.
	limitPause = time.Second
	// limitServers is the maximum number of servers that one question goes to.
	limitServers = 5
	// limitTime is how long one server may take.
	limitTime = 2 * time.Second
)

// tooLarge reports that a message is larger than the server took when it greeted.
type tooLarge struct{ size, limit int64 }

func (e *tooLarge) Error() string { return e.answer().Error() }

func (e *tooLarge) answer() error {
	return publisher.PermanentError("message too large",
		"%d bytes with headers are too many: the NATS server takes at most %d (max_payload)", e.size, e.limit)
}

// A limitQuestion asks the connecting goroutine for the servers' limit.
type limitQuestion struct {
	at     time.Time
	answer chan int64 // 0 if the limit is not known
}

// askLimit returns the answer for a message that is too large for the connection.
func (c *call) askLimit(ctx context.Context, e *tooLarge) error {
	if c.limit == 0 {
		question := limitQuestion{time.Now(), make(chan int64, 1)}
		asked, answer := c.link.p.limits, chan int64(nil)
		for waiting := true; waiting; {
			select {
			case asked <- question:
				asked, answer = nil, question.answer
			case c.limit = <-answer:
				waiting = false
			case <-c.link.closed:
				waiting = false
			case <-ctx.Done():
				waiting = false
			}
		}
	}
	switch {
	case c.limit == 0:
		return publisher.UnavailableError(publisher.ScopeMessage, "limit unknown",
			"%d bytes with headers are more than the NATS server took at first (%d), and it cannot be asked again",
			e.size, e.limit)
	case c.limit >= e.size:
		return publisher.UnavailableError(publisher.ScopeMessage, "limit raised",
			"the NATS server now takes messages of up to %d bytes: this one goes over the next connection", c.limit)
	}
	return (&tooLarge{e.size, c.limit}).answer()
}

// askServers answers a question for the servers' limit. It returns a link that takes the place of l because its server
// takes more, or nil. Questions that came before the servers were last asked get the same answer.
func (p *Publisher) askServers(ctx context.Context, l *link, question limitQuestion) (next *link) {
	if question.at.After(p.limitAt) {
		pause := time.NewTimer(time.Until(p.limitAt.Add(limitPause)))
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
		p.limitAt = time.Now()
		next, p.limit = p.roomier(ctx, l)
	}
	question.answer <- p.limit
	return next
}

// roomier returns what the servers take at most, and a link to the one that takes the most if that is more than l does.
func (p *Publisher) roomier(ctx context.Context, l *link) (best *link, limit int64) {
	servers := l.cluster()
	for _, s := range servers[:min(len(servers), limitServers)] {
		within, cancel := context.WithTimeout(ctx, limitTime)
		found, err := p.open(within, s)
		cancel()
		if err != nil {
			continue
		}
		has := found.nc.MaxPayload()
		limit = max(limit, has)
		switch {
		case has <= l.nc.MaxPayload(), best != nil && has <= best.nc.MaxPayload():
			found.drop()
		case best != nil:
			best.drop()
			fallthrough
		default:
			best = found
		}
	}
	return best, limit
}
