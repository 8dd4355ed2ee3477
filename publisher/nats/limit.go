package nats

import (
	"context"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// limitTime is how long a call waits for a connection that shows the present limit. The call's other messages wait
// meanwhile, once in a call at most.
const limitTime = 3 * time.Second

// tooLarge returns the answer for a message of so many bytes with headers, which are too many for the connection. A
// server does not tell its clients that its max_payload, or that of their account, was raised, and nats.go refuses what
// is larger than the server's greeting allowed. Before a message fails for its size, another connection is therefore
// made: its greeting has the present limit. Without that, a row failed for good, and failed again after each retry,
// until something else ended the connection. If the present limit is higher, the link is outdated, and the row goes
// over the next one.
//
// The servers of a cluster need the same max_payload: the limit is that of whichever server accepts the connection
// first.
func (c *call) tooLarge(ctx context.Context, size int64) error {
	p := c.link.p
	if c.limit == 0 {
		ctx, cancel := context.WithTimeout(ctx, limitTime)
		defer cancel()
		next, err := p.dial(ctx, p.servers)
		if err != nil {
			return publisher.UnavailableError(publisher.ScopeMessage, "limit unknown", "%d bytes with headers are "+
				"more than the NATS server took at first (%d), and it cannot be asked again: %w", size,
				c.link.nc.MaxPayload(), err)
		}
		c.limit = next.nc.MaxPayload()
		next.Close()
	}
	if c.limit < size {
		return publisher.PermanentError("message too large",
			"%d bytes with headers are too many: the NATS server takes at most %d (max_payload)", size, c.limit)
	}
	c.link.outgrown.Store(true)
	p.keeper.Look()
	return publisher.UnavailableError(publisher.ScopeMessage, "limit raised",
		"the NATS server now takes messages of up to %d bytes: this one goes over the next connection", c.limit)
}
