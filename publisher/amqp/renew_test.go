package amqp_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/amqp"
)

const expiredToken = "ACCESS_REFUSED - access to exchange 'amq.default' in vhost '/' refused for user 'relay': " +
	"Provided JWT " +
	"token has expired"

// A pipes is a network within the process, for a fake in simulated time.
type pipes struct {
	accepting chan net.Conn
	closed    chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.accepting <- far:
		return near, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.accepting:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "fake"} }

// The token of a connection expires while the URL has a new one. The new token is used soon after a refusal, or after a
// ping without one.
func TestExpiredToken(t *testing.T) {
	t.Parallel()
	for name, pinged := range map[string]bool{"refused": false, "pinged": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var valid, token atomic.Int64
			f := newFake(t, listen(t), func(m *sent) {
				if m.conn.response != fmt.Sprint("\x00relay\x00token-", valid.Load()) {
					m.closeChannel(403, expiredToken)
					return
				}
				m.ack()
			})
			var last atomic.Value
			f.login = func(response string) bool { last.Store(response); return true }
			p := amqp.New(amqp.Config{URL: func() (string, error) {
				return fmt.Sprint("amqp://relay:token-", token.Load(), "@", f.listener.Addr()), nil
			}})
			t.Cleanup(func() { _ = p.Close() })
			ping := func() bool { return p.Ping(within(t, 10*time.Second)) == nil }
			publish := func() error { return p.Publish(within(t, 10*time.Second), numbered(1, 1, "q"))[0] }
			for n := range int64(5) {
				token.Store(n)
				valid.Store(n)
				if pinged {
					// A ping waits for a check that ends, and one that began before may not know of the token. After
					// the login it is the one that logs in.
					await(t, func() bool { return ping() && last.Load() == fmt.Sprint("\x00relay\x00token-", n) })
					await(t, ping)
				} else if n > 0 {
					want(t, "a message with the expired token", publish(), publisher.Topology)
				}
				if pinged {
					want(t, "a message with the new token", publish(), publisher.Accepted)
				}
				await(t, func() bool { return publish() == nil })
			}
			await(t, func() bool { return f.live() == 1 })
			if n := len(f.connections()); n != 5 {
				t.Errorf("%d connections for five tokens", n)
			}
		})
	}
}

// A token that is refused at the login causes no outage: whatever the existing connection may do, it can still do.
func TestNewTokenIsRefused(t *testing.T) {
	t.Parallel()
	var token atomic.Int64
	f := newFake(t, listen(t), func(m *sent) { m.ack() })
	f.login = func(response string) bool { return response == "\x00relay\x00token-0" }
	p := amqp.New(amqp.Config{URL: func() (string, error) {
		return fmt.Sprint("amqp://relay:token-", token.Load(), "@", f.listener.Addr()), nil
	}})
	t.Cleanup(func() { _ = p.Close() })
	for n := range int64(3) {
		if err := p.Ping(within(t, 10*time.Second)); err != nil {
			t.Errorf("ping: %v", err)
		}
		for _, err := range p.Publish(within(t, 10*time.Second), numbered(100, 10, "q")) {
			want(t, "a message", err, publisher.Accepted)
		}
		token.Store(n)
	}
	if n := len(f.connections()); n != 2 {
		t.Errorf("%d connections, want one and one that was refused", n)
	}
}

// The URL has changed to a host that does not answer. The present connection goes on, and a ping says that it works.
func TestNewHostIsSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := newPipes()
		newFake(t, network, func(m *sent) { m.ack() })
		var host atomic.Value
		host.Store("broker")
		p := amqp.New(amqp.Config{
			URL: func() (string, error) { return fmt.Sprintf("amqp://relay:secret@%s", host.Load()), nil },
			Dial: func(ctx context.Context, kind, address string) (net.Conn, error) {
				if address == "broker:5672" {
					return network.Dial(ctx, kind, address)
				}
				<-ctx.Done()
				return nil, ctx.Err()
			},
		})
		t.Cleanup(func() { _ = p.Close() })
		want(t, "a message", p.Publish(within(t, 10*time.Second), numbered(1, 1, "q"))[0], publisher.Accepted)
		host.Store("silent")
		for range 10 {
			if err := p.Ping(within(t, 4*time.Second)); err != nil {
				t.Errorf("ping: %v", err)
			}
			want(t, "a message", p.Publish(within(t, time.Second), numbered(1, 1, "q"))[0], publisher.Accepted)
			<-time.After(time.Second)
		}
	})
}

// Calls that use a connection while another one takes its place lose nothing.
func TestRenewedUnderway(t *testing.T) {
	t.Parallel()
	var token atomic.Int64
	held, release := make(chan struct{}), make(chan struct{})
	f := newFake(t, listen(t), func(m *sent) {
		if m.id == "0" && m.topic == "slow" {
			close(held)
			<-release
		}
		m.ack()
	})
	p := amqp.New(amqp.Config{URL: func() (string, error) {
		return fmt.Sprint("amqp://relay:token-", token.Load(), "@", f.listener.Addr()), nil
	}})
	t.Cleanup(func() { _ = p.Close() })
	done := make(chan []error)
	go func() { done <- p.Publish(within(t, 20*time.Second), numbered(300, 3, "slow")) }()
	<-held
	token.Store(1)
	if err := p.Ping(within(t, 10*time.Second)); err != nil {
		t.Error(err)
	}
	want(t, "a message meanwhile", p.Publish(within(t, 10*time.Second), numbered(1, 1, "q"))[0], publisher.Accepted)
	close(release)
	for _, err := range <-done {
		want(t, "a message under way", err, publisher.Accepted)
	}
	await(t, func() bool { return f.live() == 1 })
}

// A right that is missing permanently leads to no logins.
func TestRefusedForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := newPipes()
		f := newFake(t, network, func(m *sent) {
			if m.topic == "forbidden" {
				m.closeChannel(403, "ACCESS_REFUSED - no")
				return
			}
			m.ack()
		})
		p := amqp.New(amqp.Config{Dial: network.Dial, URL: func() (string, error) {
			return "amqp://relay:secret@broker", nil
		}})
		t.Cleanup(func() { _ = p.Close() })
		for begun := time.Now(); time.Since(begun) < 2*time.Hour; {
			messages := numbered(2, 0, "q")
			messages[0].Topic = "forbidden"
			answers := p.Publish(within(t, 10*time.Second), messages)
			want(t, "the forbidden message", answers[0], publisher.Topology)
			want(t, "the other", answers[1], publisher.Accepted)
			<-time.After(8 * time.Second) // after a longer time the connection would count as dead
		}
		if n := len(f.connections()); n != 1 {
			t.Errorf("%d logins in two hours", n)
		}
	})
}

// numberedPort returns the error of a lost connection, with a port that no other connection has.
func numberedPort() func() error {
	port := 0
	return func() error {
		port++
		return &net.OpError{
			Op: "read", Net: "tcp", Source: &net.TCPAddr{Port: port}, Addr: &net.TCPAddr{Port: 443},
			Err: syscall.ECONNRESET,
		}
	}
}

// A repeated failure is logged once, although each connection has its own port.
func TestSameTroubleIsLoggedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network, trouble := newPipes(), numberedPort()
		newFake(t, network, func(m *sent) { m.closeChannel(403, "ACCESS_REFUSED - no") })
		var logged bytes.Buffer
		var lost atomic.Bool
		p := amqp.New(amqp.Config{
			Logger: slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug})),
			URL:    func() (string, error) { return fmt.Sprintf("amqp://relay:%t@broker", lost.Load()), nil },
			Dial: func(ctx context.Context, kind, address string) (net.Conn, error) {
				if lost.Load() {
					return nil, trouble()
				}
				return network.Dial(ctx, kind, address)
			},
		})
		t.Cleanup(func() { _ = p.Close() })
		for begun := time.Now(); time.Since(begun) < 5*time.Minute; <-time.After(5 * time.Second) {
			p.Publish(within(t, 10*time.Second), numbered(1, 0, "q")) // refused
			lost.Store(time.Since(begun) > 30*time.Second)
		}
		synctest.Wait()
		if n := strings.Count(logged.String(), "cannot be "); n != 1 {
			t.Errorf("logged %d times:\n%s", n, logged.String())
		}
	})
}
