package cluster

import (
	"context"
	"net"
	"sync"
	"syscall"
	"time"
)

// A Proxy stands between clients and a server, at the address that the server advertises. It can lose all packets like
// a failing network: sent data does not arrive, connections stay open, and attempts to connect get no answer.
type Proxy struct {
	Address string
	server  string
	running sync.WaitGroup
	ended   chan struct{}

	mu       sync.Mutex
	listener *net.TCPListener // nil while the server is down
	passes   chan struct{}    // closed while packets pass
	fillers  []net.Conn
}

// newProxy returns a proxy that refuses connections until it is opened.
func newProxy(address, server string) *Proxy {
	p := &Proxy{Address: address, server: server, ended: make(chan struct{}), passes: make(chan struct{})}
	close(p.passes)
	return p
}

// open lets clients connect.
func (p *Proxy) open() error {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", p.Address)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.listener = listener.(*net.TCPListener)
	p.mu.Unlock()
	p.running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			p.wait() // no connection is accepted meanwhile
			p.running.Go(func() { p.forward(client) })
		}
	})
	return nil
}

// shut refuses new connections, like the system of a server that is down.
func (p *Proxy) shut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
}

// Blackhole loses all packets until Restore.
func (p *Proxy) Blackhole() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passes = make(chan struct{})
	if p.listener == nil {
		return nil
	}
	if err := p.backlog(0); err != nil {
		return err
	}
	// Linux does not answer attempts to connect once unaccepted connections fill the backlog.
	for {
		filler, err := (&net.Dialer{Timeout: 200 * time.Millisecond}).DialContext(context.Background(), "tcp",
			p.Address)
		if err != nil {
			return nil
		}
		p.fillers = append(p.fillers, filler)
	}
}

// Restore lets packets pass. Lost packets arrive now, since their senders send them again.
func (p *Proxy) Restore() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, filler := range p.fillers {
		_ = filler.Close()
	}
	p.fillers = nil
	select {
	case <-p.passes:
		return nil
	default:
		close(p.passes)
	}
	if p.listener == nil {
		return nil
	}
	return p.backlog(syscall.SOMAXCONN)
}

// backlog sets how many connections may wait to be accepted.
func (p *Proxy) backlog(n int) error {
	raw, err := p.listener.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = syscall.Listen(int(fd), n) })
	if err != nil {
		return err
	}
	return failed
}

// wait returns when packets pass, or the proxy has ended.
func (p *Proxy) wait() (alive bool) {
	p.mu.Lock()
	passes := p.passes
	p.mu.Unlock()
	select {
	case <-passes:
		return true
	case <-p.ended:
		return false
	}
}

func (p *Proxy) forward(client net.Conn) {
	defer client.Close()
	server, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	done := make(chan struct{})
	p.running.Go(func() {
		select {
		case <-done:
		case <-p.ended:
			_, _ = client.Close(), server.Close()
		}
	})
	var both sync.WaitGroup
	both.Go(func() { p.copy(server, client) })
	both.Go(func() { p.copy(client, server) })
	both.Wait()
	close(done)
}

// copy passes on the data and the end of one side.
func (p *Proxy) copy(to, from net.Conn) {
	defer to.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if !p.wait() || err != nil {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (p *Proxy) close() {
	p.shut()
	close(p.ended)
	_ = p.Restore()
	p.running.Wait()
}
