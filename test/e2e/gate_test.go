package e2e

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// A gate is a TCP proxy that can be shut. While it is shut, its connections are closed and new ones are refused, as if
// the server were down.
type gate struct {
	t      testing.TB
	addr   string // address of the gate
	server string
	group  sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil while the gate is shut
	conns    map[net.Conn]bool
}

// newGate opens a gate to the server of an address, and returns the address that leads through it.
func newGate(t testing.TB, address string) (g *gate, through string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal("the address is not a URL")
	}
	g = &gate{t: t, addr: freeAddr(t), server: u.Host, conns: map[net.Conn]bool{}}
	g.open()
	t.Cleanup(func() {
		g.shut()
		g.group.Wait()
	})
	u.Host = g.addr
	return g, u.String()
}

func (g *gate) open() {
	g.t.Helper()
	listener, err := new(net.ListenConfig).Listen(g.t.Context(), "tcp", g.addr)
	if err != nil {
		g.t.Fatal(err)
	}
	g.mu.Lock()
	g.listener = listener
	g.mu.Unlock()
	g.group.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			g.group.Go(func() { g.pass(listener, client) })
		}
	})
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.listener != nil {
		_ = g.listener.Close()
		g.listener = nil
	}
	for conn := range g.conns {
		_ = conn.Close()
	}
}

// pass carries bytes both ways until one end closes or the gate is shut.
func (g *gate) pass(through net.Listener, client net.Conn) {
	server, err := net.Dial("tcp", g.server)
	if err != nil {
		_ = client.Close()
		return
	}
	g.mu.Lock()
	if g.listener == through {
		g.conns[client], g.conns[server] = true, true
	} else { // the gate was shut in the meantime
		_ = client.Close()
		_ = server.Close()
	}
	g.mu.Unlock()
	var both sync.WaitGroup
	for from, to := range map[net.Conn]net.Conn{client: server, server: client} {
		both.Go(func() {
			_, _ = io.Copy(to, from) // ends when either side does
			_ = to.Close()
		})
	}
	both.Wait()
	_ = client.Close()
	_ = server.Close()
	g.mu.Lock()
	delete(g.conns, client)
	delete(g.conns, server)
	g.mu.Unlock()
}
