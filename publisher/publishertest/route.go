package publishertest

import (
	"context"
	"net"
)

// A Route is the part of a network that leads to one address, as the publisher under test dials it. It can be broken
// while the rest of the network works. It is safe for concurrent use.
type Route struct {
	network *Network
	address string
}

// Route returns the part of the network that leads to an address.
func (n *Network) Route(address string) Route { return Route{n, address} }

// Cut resets the open connections to the address and refuses new ones, like a server that is gone.
func (r Route) Cut() { r.network.cut(r.address) }

// Freeze stops all data to and from the address and closes nothing, like a server whose packets are lost. See
// [Network.Freeze].
func (r Route) Freeze() { r.turn(frozen) }

// Mute lets everything through to the address and nothing back. See [Network.Mute].
func (r Route) Mute() { r.turn(muted) }

// Restore ends Cut, Freeze and Mute of this route. Connections that were cut stay broken.
func (r Route) Restore() { r.turn(fine) }

// Alias redirects connections from an address to another one. It gives a single server several names, which stand for
// the addresses of a cluster. It must be called before the address is first dialled.
func (n *Network) Alias(address, real string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.aliases[address] = real
}

func (r Route) turn(to weather) {
	r.network.mu.Lock()
	defer r.network.mu.Unlock()
	r.network.turn(r.address, to)
}

// connect makes the real connection.
func (n *Network) connect(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	if real, ok := n.aliases[address]; ok {
		address = real
	}
	n.mu.Unlock()
	return new(net.Dialer).DialContext(ctx, network, address)
}
