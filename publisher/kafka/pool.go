package kafka

import (
	"slices"
	"time"
)

// take returns a connection that is idle and read by the broker, or nil. Stale ones are gone by then.
func (b *broker) take(now time.Time) *conn {
	for i := len(b.idle) - 1; i >= 0; i-- { // the one used last, so that those that are not needed grow stale
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

// discard ends idle connections.
func (b *broker) discard(unwanted func(*conn) bool) {
	b.idle = slices.DeleteFunc(b.idle, func(c *conn) bool {
		if unwanted(c) {
			c.close()
			return true
		}
		return false
	})
}
