package amqp_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/amqp"
)

// A firewall forgets the connection: what is sent on it is lost without a response, and a new connection works. Rows
// flow again within two seconds after the publish timeout, whatever operation finds the connection silent.
func TestHalfOpenConnection(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		exchange string
		other    string                                       // exchange that a message names
		before   func(ctx context.Context, p *amqp.Publisher) // runs on the healthy connection
		ping     bool                                         // a ping finds it out
	}{
		"publish": {before: func(ctx context.Context, p *amqp.Publisher) {
			_ = p.Publish(ctx, numbered(9, 3, "q"))
		}},
		"open a channel": {before: func(ctx context.Context, p *amqp.Publisher) { _ = p.Ping(ctx) }},
		"look for the exchange": {other: "x", before: func(ctx context.Context, p *amqp.Publisher) {
			_ = p.Publish(ctx, numbered(9, 3, "q"))
		}},
		"ping": {ping: true, before: func(ctx context.Context, p *amqp.Publisher) {
			_ = p.Publish(ctx, numbered(9, 3, "q"))
		}},
		"ping, with the exchange": {
			ping: true, exchange: "x",
			before: func(ctx context.Context, p *amqp.Publisher) { _ = p.Publish(ctx, numbered(9, 3, "q")) },
		},
	} {
		for _, timeout := range []time.Duration{time.Second, 3 * time.Second} {
			t.Run(fmt.Sprint(name, ", ", timeout), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					network := newPipes()
					f := newFake(t, network, func(m *sent) { m.ack() })
					p := amqp.New(amqp.Config{
						Dial: network.Dial, Exchange: test.exchange,
						URL: func() (string, error) { return "amqp://relay:secret@broker", nil },
					})
					t.Cleanup(func() { _ = p.Close() })
					test.before(t.Context(), p)
					for _, c := range f.connections() {
						c.deaf.Store(true)
					}
					messages := numbered(1, 1, "q")
					messages[0].Exchange = test.other
					begun := time.Now()
					for {
						if test.ping {
							if p.Ping(within(t, timeout)) == nil {
								break
							}
						} else if p.Publish(within(t, timeout), messages)[0] == nil {
							break
						}
						<-time.After(250 * time.Millisecond) // as the relay does
					}
					if took := time.Since(begun); took > timeout+2*time.Second {
						t.Errorf("back after %v", took)
					}
				})
			})
		}
	}
}

// A broker that stalls for two seconds, in a collection of garbage for example, gets nothing twice, although another
// connection is made meanwhile: the confirm comes on the one before.
func TestStallOfTwoSeconds(t *testing.T) {
	t.Parallel()
	for _, hosts := range []string{"broker", "one,two"} {
		t.Run(hosts, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var stall sync.Once
				copies := 0
				network := newPipes()
				f := newFake(t, network, func(m *sent) {
					copies++
					stall.Do(func() { <-time.After(2 * time.Second) })
					m.ack()
				})
				p := amqp.New(amqp.Config{
					Dial: network.Dial,
					URL:  func() (string, error) { return "amqp://relay:secret@" + hosts, nil },
				})
				t.Cleanup(func() { _ = p.Close() })
				for attempt := 0; p.Publish(within(t, 30*time.Second), numbered(1, 1, "q"))[0] != nil; attempt++ {
					if attempt > 100 {
						t.Fatal("never accepted")
					}
					<-time.After(250 * time.Millisecond) // as the relay does
				}
				if got := len(f.connections()); got > 2 || copies != 1 {
					t.Errorf("%d connections, want 2 at most; the message was sent %d times", got, copies)
				}
			})
		})
	}
}

// A broker that answers everything except a message does not count as gone.
func TestUnconfirmedIsNotHalfOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := newPipes()
		f := newFake(t, network, func(m *sent) {
			if m.topic == "well" {
				m.ack()
			}
		})
		p := amqp.New(amqp.Config{Dial: network.Dial, URL: func() (string, error) {
			return "amqp://relay:secret@broker", nil
		}})
		t.Cleanup(func() { _ = p.Close() })
		for range 5 {
			want(t, "another message", p.Publish(within(t, 3*time.Second), numbered(1, 1, "well"))[0], publisher.Accepted)
			want(t, "the message", p.Publish(within(t, 3*time.Second), numbered(1, 1, "q"))[0], publisher.Unavailable)
			if err := p.Ping(within(t, 3*time.Second)); err != nil {
				t.Errorf("ping: %v", err)
			}
		}
		if n := len(f.connections()); n != 1 {
			t.Errorf("%d connections, want the one that answers", n)
		}
	})
}

// The connection is forgotten while nothing accepts another one. Rows flow again soon after something does.
func TestHalfOpenWhileNothingAccepts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := newPipes()
		f := newFake(t, network, func(m *sent) { m.ack() })
		var away atomic.Bool
		p := amqp.New(amqp.Config{
			URL: func() (string, error) { return "amqp://relay:secret@broker", nil },
			Dial: func(ctx context.Context, kind, address string) (net.Conn, error) {
				if away.Load() {
					return nil, &net.OpError{Op: "dial", Net: kind, Err: syscall.ECONNREFUSED}
				}
				return network.Dial(ctx, kind, address)
			},
		})
		t.Cleanup(func() { _ = p.Close() })
		want(t, "a message", p.Publish(within(t, 10*time.Second), numbered(1, 1, "q"))[0], publisher.Accepted)
		for _, c := range f.connections() {
			c.deaf.Store(true)
		}
		away.Store(true)
		for range 5 { // after ten seconds without heartbeats, the connection would end by itself
			want(t, "a message", p.Publish(within(t, 10*time.Second), numbered(1, 1, "q"))[0], publisher.Unavailable)
			<-time.After(time.Second)
		}
		away.Store(false)
		begun := time.Now()
		for p.Publish(within(t, 10*time.Second), numbered(2, 2, "q"))[1] != nil {
			if time.Since(begun) > 3*time.Second {
				t.Fatal("no message is accepted")
			}
			<-time.After(250 * time.Millisecond)
		}
	})
}
