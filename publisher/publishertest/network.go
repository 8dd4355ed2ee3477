package publishertest

import (
	"context"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A Network is a dialer whose connections a test can break. A publisher under test reaches its
// broker only through it. It is safe for concurrent use.
type Network struct {
	mu      sync.Mutex
	weather weather
	changed chan struct{} // closed and replaced when the weather changes
	wrote   chan struct{} // closed and replaced when bytes are handed to Write
	written int64         // bytes handed to Write since the weather changed
	fuse    int64         // bytes until the network is cut; 0 is never
	conns   map[*conn]struct{}
}

// The weather is what a network does with bytes.
type weather uint8

const (
	fine weather = iota
	cut
	frozen
	muted
)

// NewNetwork returns a network on which everything works.
func NewNetwork() *Network {
	return &Network{changed: make(chan struct{}), wrote: make(chan struct{}), conns: map[*conn]struct{}{}}
}

// Dial connects as net.Dialer does. It is refused while the network is cut, and waits while it is
// frozen.
func (n *Network) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	for {
		weather, changed := n.now()
		switch weather {
		case cut:
			return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
		case frozen:
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return nil, &net.OpError{Op: "dial", Net: network, Err: ctx.Err()}
			}
		}
		var dialer net.Dialer
		real, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c := newConn(n, real)
		if n.admit(c) {
			return c, nil
		}
		_ = real.Close()
	}
}

// Cut resets every open connection and refuses new ones, like a broker that is gone.
func (n *Network) Cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.turn(cut)
	for c := range n.conns {
		c.reset()
	}
	clear(n.conns)
}

// CutAfter lets the given number of further bytes be written, which may end within a message, and
// then cuts the network.
func (n *Network) CutAfter(bytes int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fuse = max(bytes, 1)
}

// Freeze lets nothing through any more in either direction and closes nothing, like a cable that was
// pulled: reads and writes block until Restore, their deadline, Close or Cut. What was written
// before Freeze may still arrive; what waits in a write or on its way back arrives after Restore.
func (n *Network) Freeze() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.turn(frozen)
}

// Mute lets everything through to the broker and nothing back: requests arrive, answers do not. Cut
// after Mute loses the answers for ever.
func (n *Network) Mute() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.turn(muted)
}

// Restore ends Cut, CutAfter, Freeze and Mute. Connections that were cut stay broken.
func (n *Network) Restore() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.turn(fine)
}

// AwaitWrite waits until at least so many bytes were handed to the connections' Write since the last
// Cut, Freeze, Mute or Restore, whether they got through or not. It fails the test after a minute.
func (n *Network) AwaitWrite(t testing.TB, bytes int64) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		n.mu.Lock()
		written, wrote := n.written, n.wrote
		n.mu.Unlock()
		if written >= bytes {
			return
		}
		select {
		case <-wrote:
		case <-late:
			t.Fatalf("the publisher wrote %d bytes in a minute, not %d", written, bytes)
		}
	}
}

// AwaitCut waits until the network is cut, as CutAfter does in time. It fails the test after a
// minute.
func (n *Network) AwaitCut(t testing.TB) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		weather, changed := n.now()
		if weather == cut {
			return
		}
		select {
		case <-changed:
		case <-late:
			t.Fatal("the network was not cut within a minute: the publisher writes too little")
		}
	}
}

func (n *Network) now() (weather, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.weather, n.changed
}

// turn changes the weather; n.mu is held.
func (n *Network) turn(to weather) {
	n.weather, n.written, n.fuse = to, 0, 0
	close(n.changed)
	n.changed = make(chan struct{})
}

// admit makes a new connection breakable, unless the weather turned while it was dialled.
func (n *Network) admit(c *conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.weather == cut || n.weather == frozen {
		return false
	}
	n.conns[c] = struct{}{}
	return true
}

func (n *Network) forget(c *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
}

// offer counts bytes handed to Write and returns how many of them the fuse lets through.
func (n *Network) offer(bytes int) (allowed int, burnt bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.written += int64(bytes)
	close(n.wrote)
	n.wrote = make(chan struct{})
	if n.fuse == 0 {
		return bytes, false
	}
	if int64(bytes) < n.fuse {
		n.fuse -= int64(bytes)
		return bytes, false
	}
	return int(n.fuse), true
}
