package kafka

import (
	"slices"
	"time"
)

// take returns an idle connection from which the broker reads, or nil. Stale connections have been discarded before.
func (b *broker) take(now time.Time) *conn {
	// the most recently used one, so that those that are not needed become stale
	for i := len(b.idle) - 1; i >= 0; i-- {
		if c := b.idle[i]; !now.Before(c.muted) {
			b.idle = slices.Delete(b.idle, i, i+1)
			return c
		}
	}
	return nil
}

// keep takes back a connection on which an answer has come.
func (b *broker) keep(c *conn, now time.Time) {
	c.used, c.reused = now, true
	b.idle = append(b.idle, c)
}

// discard closes the unwanted idle connections.
func (b *broker) discard(unwanted func(*conn) bool) {
	b.idle = slices.DeleteFunc(b.idle, func(c *conn) bool {
		if unwanted(c) {
			c.close()
			return true
		}
		return false
	})
}
