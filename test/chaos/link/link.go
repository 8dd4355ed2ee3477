// Package link is a connection between a relay and a server that can be disturbed: a TCP proxy whose far side is a
// network that can be cut, frozen, muted or slowed down.
package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// A Link listens on an address of its own and forwards what it receives. It is safe for concurrent use.
type Link struct {
	*publishertest.Network // disturbs it: Cut, Freeze, Mute, Restore
	listener               net.Listener
	slow                   atomic.Int64 // delay of each piece of data, in nanoseconds
	closed                 chan struct{}
	group                  sync.WaitGroup
}

// Listen makes a link that listens and leads nowhere until Serve is called.
func Listen(ctx context.Context) (*Link, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for a link: %w", err)
	}
	return &Link{Network: publishertest.NewNetwork(), listener: listener, closed: make(chan struct{})}, nil
}

// Address returns the address on which the link listens.
func (l *Link) Address() string { return l.listener.Addr().String() }

// Slow delays each piece of data in both directions. Pieces of at most 32 KiB are delayed one after the other.
func (l *Link) Slow(delay time.Duration) { l.slow.Store(int64(delay)) }

// Serve makes the link lead to a server, until Close is called.
func (l *Link) Serve(ctx context.Context, server string) {
	l.group.Go(func() {
		for {
			near, err := l.listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				continue // a client that has disconnected
			}
			l.group.Go(func() { l.join(context.WithoutCancel(ctx), near, server) })
		}
	})
}

// Close ends all connections and waits for them.
func (l *Link) Close() {
	close(l.closed)
	_ = l.listener.Close()
	l.Cut()
	l.group.Wait()
}

// join forwards data between two connections until one of them ends.
func (l *Link) join(ctx context.Context, near net.Conn, server string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer near.Close()
	over := make(chan struct{})
	defer close(over)
	l.group.Go(func() {
		select {
		case <-l.closed:
		case <-over:
		}
		cancel()
		_ = near.Close() // ends the reads
	})
	far, err := l.Dial(ctx, "tcp", server)
	if err != nil {
		reset(near)
		return
	}
	defer far.Close()
	var both sync.WaitGroup
	pass := func(to, from net.Conn) {
		l.pass(to, from)
		reset(near)
		_ = near.Close()
		_ = far.Close()
	}
	both.Go(func() { pass(far, near) })
	both.Go(func() { pass(near, far) })
	both.Wait()
}

// pass copies until either side ends.
func (l *Link) pass(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if delay := time.Duration(l.slow.Load()); delay > 0 && n > 0 {
			select {
			case <-time.After(delay):
			case <-l.closed:
				return
			}
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			// returns when the network lets something through: the end of a connection does not overtake data
			_, _ = to.Write(nil)
			return
		}
	}
}

// reset makes the close of a connection an error at its other end.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // at worst it ends gracefully
	}
}
