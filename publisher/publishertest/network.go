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

// A Network is a dialer whose connections a test can break. A publisher under test reaches its broker only through it.
// It is safe for concurrent use.
type Network struct {
	mu      sync.Mutex
	weather weather            // weather everywhere
	routes  map[string]weather // weather by address, if the weather everywhere is fine
	aliases map[string]string  // real address by the address that is dialled
	changed chan struct{}      // closed and replaced when the weather changes
	wrote   chan struct{}      // closed and replaced when bytes are passed to Write
	written int64              // number of bytes passed to Write since the weather changed
	fuse    int64              // number of bytes until the network is cut; 0 means never
	conns   map[*conn]struct{}
}

// weather is what a network does with bytes.
type weather uint8

const (
	fine weather = iota
	cut
	frozen
	muted
)

// NewNetwork returns a network on which everything works.
func NewNetwork() *Network {
	return &Network{
		changed: make(chan struct{}), wrote: make(chan struct{}), conns: map[*conn]struct{}{},
		routes: map[string]weather{}, aliases: map[string]string{},
	}
}

// Dial connects as net.Dialer does. It is refused while the network is cut, and waits while the network is frozen.
func (n *Network) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	for {
		weather, changed := n.now(address)
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
		default:
		}
		real, err := n.connect(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c := newConn(n, address, real)
		if n.admit(c) {
			return c, nil
		}
		_ = real.Close()
	}
}

// Cut resets every open connection and refuses new ones, like a broker that is gone.
func (n *Network) Cut() { n.cut(everywhere) }

// everywhere stands for all addresses.
const everywhere = ""

func (n *Network) cut(address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.turn(address, cut)
	for c := range n.conns {
		if address == everywhere || address == c.address {
			c.reset()
			delete(n.conns, c)
		}
	}
}

// CutAfter lets the given number of further bytes be written, which may end within a message, and then cuts the
// network.
func (n *Network) CutAfter(bytes int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fuse = max(bytes, 1)
}

// Freeze stops all data in both directions and closes nothing, like a cable that was pulled. Reads and writes block
// until Restore, their deadline, Close or Cut. Data written before Freeze may still arrive. Data that waits in a write,
// or is on its way back, arrives after Restore.
func (n *Network) Freeze() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.turn(everywhere, frozen)
}

// Mute lets everything through to the broker and nothing back: requests arrive, answers do not. Cut after Mute loses
// the answers for ever.
func (n *Network) Mute() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.turn(everywhere, muted)
}

// Restore ends Cut, CutAfter, Freeze and Mute, of the network and of its routes. Connections that were cut stay broken.
func (n *Network) Restore() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.routes)
	n.turn(everywhere, fine)
}

// AwaitWrite waits until at least the given number of bytes has been passed to the connections' Write since the last
// Cut, Freeze, Mute or Restore, whether the bytes got through or not. It fails the test after a minute.
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

// AwaitCut waits until the network is cut, for example by CutAfter. It fails the test after a minute.
func (n *Network) AwaitCut(t testing.TB) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		weather, changed := n.now(everywhere)
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

// now returns the weather on the route to an address, and a channel that is closed when it changes.
func (n *Network) now(address string) (weather, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.at(address), n.changed
}

// at returns the weather on the route to an address. n.mu is held.
func (n *Network) at(address string) weather {
	if n.weather != fine {
		return n.weather
	}
	return n.routes[address]
}

// turn changes the weather on the route to an address. n.mu is held.
func (n *Network) turn(address string, to weather) {
	if address == everywhere {
		n.weather = to
	} else {
		n.routes[address] = to
	}
	n.written, n.fuse = 0, 0
	close(n.changed)
	n.changed = make(chan struct{})
}

// admit makes a new connection breakable. It reports false if the weather became bad during the dial.
func (n *Network) admit(c *conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if at := n.at(c.address); at == cut || at == frozen {
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

// offer counts bytes passed to Write and returns how many of them may go through before the cut.
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
