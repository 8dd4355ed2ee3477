package nats_test

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/outbox-relay/outbox-relay/publisher/nats"
)

// The configured address is away for a moment. The cluster's other addresses belong to a network of its own, and what
// is sent to them is lost. The configured address is tried as well.
func TestUnreachableClusterAddresses(t *testing.T) {
	t.Parallel()
	f := (&fake{publish: stores, cluster: []string{"10.1.1.1:4222", "10.1.1.2:4222", "10.1.1.3:4222"}}).start(t)
	var away atomic.Bool
	swallowed := make(chan string, 100)
	p := open(t, nats.Config{
		Servers: []string{f.address},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if address != f.address {
				swallowed <- address
				<-ctx.Done()
				return nil, ctx.Err()
			}
			if away.Load() {
				return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	})
	p.GiveUpAfter(2 * patience)
	blink := func() {
		away.Store(true)
		f.mu.Lock()
		defer f.mu.Unlock()
		for c := range f.conns {
			_ = c.Close()
		}
		clear(f.conns)
	}
	persist(t, p)
	blink()
	tried := map[string]bool{}
	for len(tried) < 3 {
		tried[<-swallowed] = true
	}
	away.Store(false)
	persist(t, p) // while all the others wait
}

// A server that refuses connections at first is tried again after another one, which accepts them and never sends
// anything, has had its turn.
func TestBlackholeBesideServerThatReturns(t *testing.T) {
	t.Parallel()
	f := (&fake{publish: stores}).start(t)
	blackhole, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts, and nothing answers
	if err != nil {
		t.Fatal(err)
	}
	defer blackhole.Close()
	var tries atomic.Int32
	p := open(t, nats.Config{
		Servers: []string{f.address, blackhole.Addr().String()},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == f.address && tries.Add(1) <= 2 {
				return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	})
	persist(t, p)
}
