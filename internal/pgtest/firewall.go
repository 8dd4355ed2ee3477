package pgtest

import (
	"context"
	"errors"
	"net"
	"net/url"
	"sync"
	"testing"
)

// A Firewall lies between a client and the server, and can forget connections: data sent on them is lost silently, and
// neither end learns that the other has closed. New connections work.
type Firewall struct {
	listener net.Listener
	server   string
	group    sync.WaitGroup

	mu    sync.Mutex
	flows []*flow // open flows, oldest first
	ended bool
}

// flow is a connection through a firewall.
type flow struct {
	client, server               net.Conn
	mu                           sync.Mutex
	loseToServer, loseFromServer bool
}

// NewFirewall starts a firewall in front of the server at an address, and returns the address that leads through it.
func NewFirewall(t testing.TB, address string) (f *Firewall, through string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal("the address of the database is not a URL")
	}
	f = &Firewall{server: u.Host}
	if f.listener, err = new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	f.group.Go(f.accept)
	t.Cleanup(f.close)
	u.Host = f.listener.Addr().String()
	return f, u.String()
}

// Forget forgets up to n open connections, the oldest first, and returns how many it has forgotten.
func (f *Firewall) Forget(n int, toServer, fromServer bool) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n = min(n, len(f.flows))
	for _, w := range f.flows[:n] {
		w.mu.Lock()
		w.loseToServer, w.loseFromServer = w.loseToServer || toServer, w.loseFromServer || fromServer
		w.mu.Unlock()
	}
	return n
}

func (f *Firewall) accept() {
	for {
		client, err := f.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // a client that has disconnected
		}
		server, err := new(net.Dialer).DialContext(context.Background(), "tcp", f.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		w := &flow{client: client, server: server}
		f.mu.Lock()
		f.flows = append(f.flows, w)
		if f.ended {
			_, _ = client.Close(), server.Close()
		}
		f.mu.Unlock()
		f.group.Go(func() { f.pass(w) })
	}
}

func (f *Firewall) pass(w *flow) {
	var both sync.WaitGroup
	both.Go(func() { w.copy(w.server, w.client, &w.loseToServer) })
	both.Go(func() { w.copy(w.client, w.server, &w.loseFromServer) })
	both.Wait()
	_ = w.client.Close()
	_ = w.server.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, other := range f.flows {
		if other == w {
			f.flows = append(f.flows[:i:i], f.flows[i+1:]...)
			return
		}
	}
}

// copy passes on the data and the end of one side, unless they are to be lost.
func (w *flow) copy(to, from net.Conn, lose *bool) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		w.mu.Lock()
		lost := *lose
		w.mu.Unlock()
		switch {
		case err != nil && !lost:
			_ = to.Close()
			return
		case err != nil:
			return
		case !lost:
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
	}
}

func (f *Firewall) close() {
	_ = f.listener.Close()
	f.mu.Lock()
	f.ended = true
	for _, w := range f.flows {
		_ = w.client.Close()
		_ = w.server.Close()
	}
	f.mu.Unlock()
	f.group.Wait()
}
