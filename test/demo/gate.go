package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
)

// A gate is a proxy in front of a broker. While it is shut, the broker is unavailable for clients of the gate.
type gate struct {
	listener net.Listener
	behind   string // host:port of the broker

	mu    sync.Mutex
	shut  bool
	conns map[net.Conn]struct{}
	group sync.WaitGroup
}

// openGate returns a gate and the broker's URL through it.
func openGate(ctx context.Context, address string) (*gate, string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, "", fmt.Errorf("read the broker's address: %w", err)
	}
	g := &gate{behind: u.Host, conns: map[net.Conn]struct{}{}}
	if g.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return nil, "", fmt.Errorf("listen before the broker: %w", err)
	}
	u.Host = g.listener.Addr().String()
	g.group.Go(g.accept)
	return g, u.String(), nil
}

func (g *gate) accept() {
	for {
		conn, err := g.listener.Accept()
		if err != nil {
			return // the gate was closed
		}
		g.group.Go(func() { g.pass(conn) })
	}
}

// pass connects a client with the broker until one of them ends, or the gate is shut.
func (g *gate) pass(client net.Conn) {
	defer client.Close()
	broker, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", g.behind)
	if err != nil {
		return
	}
	defer broker.Close()
	if !g.enter(client) {
		return
	}
	defer g.leave(client)
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(client, broker) // either end may close the connection
		_ = client.Close()
	})
	_, _ = io.Copy(broker, client)
	_ = broker.Close()
	back.Wait()
}

func (g *gate) enter(conn net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.shut {
		g.conns[conn] = struct{}{}
	}
	return !g.shut
}

func (g *gate) leave(conn net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.conns, conn)
}

// set shuts the gate, which ends all connections, or opens it again.
func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut = shut; !shut {
		return
	}
	for conn := range g.conns {
		_ = conn.Close()
	}
}

func (g *gate) close() {
	_ = g.listener.Close()
	g.set(true)
	g.group.Wait()
}
