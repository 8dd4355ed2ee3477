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

func (e *tooLarge) Error() string {
	return publisher.PermanentError("message too large",
		"%d bytes with headers are too many: the NATS server takes at most %d (max_payload)", e.size, e.limit).Error()
}

// A limitQuestion asks whether the servers take a message of the given size.
type limitQuestion struct {
	size   int64
	answer chan int64 // their limit, or 0 if it is not known
}

// askLimit returns the answer for a message that is too large for the connection. limit is what this call has already
// been told, and is updated.
func (l *lane) askLimit(ctx context.Context, e *tooLarge, limit *int64) error {
	if *limit == 0 {
		question := limitQuestion{e.size, make(chan int64, 1)}
		select {
		case l.link.limits <- question:
			select {
			case *limit = <-question.answer:
			case <-l.link.closed:
			case <-ctx.Done():
			}
		case <-l.link.closed:
		case <-ctx.Done():
		}
	}
	switch {
	case *limit == 0:
		return publisher.UnavailableError(publisher.ScopeMessage, "limit unknown",
			"%d bytes with headers are more than the NATS server took at first (%d), and it cannot be asked again",
			e.size, e.limit)
	case *limit >= e.size:
		return publisher.UnavailableError(publisher.ScopeMessage, "limit raised",
			"the NATS server now takes messages of up to %d bytes: this one goes over the next connection", *limit)
	}
	return publisher.PermanentError("message too large", "%s", (&tooLarge{e.size, *limit}).Error())
}

// roomier returns what the servers take at most, and a link to the one that takes more than l does, if there is one.
// The server of l is asked first, others only as long as none takes the size.
func (p *Publisher) roomier(ctx context.Context, l *link, size int64) (best *link, limit int64) {
	servers := append([]server{l.server}, l.server.with(p.servers, l.nc.DiscoveredServers())...)
	for i, s := range servers[:min(len(servers), limitServers)] {
		if i > 0 && s.address == l.server.address {
			continue
		}
		within, cancel := context.WithTimeout(ctx, limitTime)
		found, err := p.open(within, s)
		cancel()
		if err != nil {
			continue
		}
		has := found.nc.MaxPayload()
		limit = max(limit, has)
		if has <= l.nc.MaxPayload() || best != nil && has <= best.nc.MaxPayload() {
			found.drop()
			continue
		}
		if best != nil {
			best.drop()
		}
		if best = found; has >= size {
			break
		}
	}
	return best, limit
}

// answerLimits answers the questions for the servers' limits. It returns the link that takes the place of l, or nil.
func (p *Publisher) answerLimits(ctx context.Context, l *link) *link {
	p.limitAt = time.Now()
	var size int64
	for _, question := range p.limited {
		size = max(size, question.size)
	}
	next, limit := p.roomier(ctx, l, size)
	for _, question := range p.limited {
		question.answer <- limit
	}
	p.limited = p.limited[:0]
	return next
}
