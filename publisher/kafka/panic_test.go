package kafka

import (
	"context"
	"errors"
	"net"
	"slices"
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

// A call that panics while it holds the turns of partitions gives them back, so that later calls can publish to them.
// What it has sent to another broker before is waited for.
func TestPanicGivesTurnsBack(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 2)
	f.topic("t", 0, 1)
	p := f.open()
	made, buffers := 0, p.buffers.New
	p.buffers.New = func() any {
		if made++; made == 2 { // of the second broker's batch
			panic("mine")
		}
		return buffers()
	}
	both := slices.Concat(rows("t", 0, 2, "a"), rows("t", 1, 2, "b"))
	func() {
		defer func() {
			if recover() != "mine" {
				t.Error("no panic")
			}
		}()
		publish(t, p, both)
	}()
	expect(t, "after", publish(t, p, both), ok, ok)
}
