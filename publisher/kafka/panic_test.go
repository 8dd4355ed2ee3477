package kafka

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/panics"
)

// mined is a connection whose reads panic while its mine is set, as the library may panic on what it reads.
type mined struct {
	net.Conn
	mine *atomic.Bool
}

func (c *mined) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.mine.Load() {
		panic("mine")
	}
	return n, err
}

// A panic in one of the publisher's own goroutines ends its connection or its dial, and nothing else.
func TestPanicEndsItsConnection(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0)
	var mine atomic.Bool
	p := f.open(func(c *Config) {
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			var d net.Dialer
			conn, err := d.DialContext(ctx, network, address)
			return &mined{conn, &mine}, err
		}
	})
	expect(t, "before", publish(t, p, rows("t", 0, 1, "a")), ok)
	mine.Store(true)
	lost := rows("t", 0, 1, "b")
	expect(t, "of an answer", publish(t, p, lost), unsure)
	_, caught := errors.AsType[*panics.Error](p.Ping(t.Context()))
	if !caught {
		t.Error("the panic of a dial is not shown")
	}
	mine.Store(false)
	persist(t, p, append(lost, rows("t", 0, 1, "c")...))
	expect(t, "log", f.log("t", 0), "a", "b", "c")
}
