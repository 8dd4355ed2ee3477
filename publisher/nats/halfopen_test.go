package nats_test

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/outbox-relay/outbox-relay/internal/logtest"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/nats"
)

// A firewall forgets connections: it drops what is sent over them. New connections work.
type firewall struct {
	mu    sync.Mutex
	conns []*guarded
}

type guarded struct {
	net.Conn
	forgotten atomic.Bool
}

func (g *guarded) Write(b []byte) (int, error) {
	if g.forgotten.Load() {
		return len(b), nil
	}
	return g.Conn.Write(b)
}

func (f *firewall) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	g := &guarded{Conn: c}
	f.conns = append(f.conns, g)
	return g, nil
}

func (f *firewall) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		c.forgotten.Store(true)
	}
}

// Whatever operation meets the dead connection first, the connection is given up soon after. The connection's own pings
// would take half a minute.
func TestForgottenConnection(t *testing.T) {
	t.Parallel()
	const publishTimeout, soon = time.Second, 12 * time.Second
	topic := harness{}.Unknown(t)
	stream(t, broker(t), jetstream.StreamConfig{Subjects: []string{topic}})
	publish := func(n int) func(context.Context, *nats.Publisher) error {
		return func(ctx context.Context, p *nats.Publisher) error {
			for _, err := range p.Publish(ctx, hotRows(topic, n, 3)) {
				if publisher.ClassOf(err) != publisher.Accepted {
					return err
				}
			}
			return nil
		}
	}
	ping := func(ctx context.Context, p *nats.Publisher) error { return p.Ping(ctx) }
	for name, do := range map[string]func(context.Context, *nats.Publisher) error{
		"one row": publish(1), "many rows": publish(1000), "ping": ping,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var f firewall
			p := open(t, nats.Config{Dial: f.dial})
			if err := do(timely(t), p); err != nil {
				t.Fatal(err)
			}
			f.forget()
			again := time.NewTicker(100 * time.Millisecond)
			defer again.Stop()
			forgotten, calls := time.Now(), 0
			for ctx := timely(t); ; calls++ {
				call, cancel := context.WithTimeout(ctx, publishTimeout)
				err := do(call, p)
				cancel()
				if err == nil {
					break
				}
				if ctx.Err() != nil {
					t.Fatal(err)
				}
				<-again.C
			}
			if took := time.Since(forgotten); took > soon {
				t.Errorf("the connection was given up %v after it was forgotten, after %d calls of %v", took, calls, publishTimeout)
			}
		})
	}
}

// A stream that does not answer implies nothing about the connection.
func TestSilentStreamKeepsTheConnection(t *testing.T) {
	t.Parallel()
	im := newImpostor(t)
	var log logtest.Log
	p := open(t, nats.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		expect(t, p.Publish(ctx, im.messages(1, 1)), publisher.Unavailable)
		cancel()
	}
	if err := p.Ping(timely(t)); err != nil {
		t.Error(err)
	}
	if text := log.String(); strings.Contains(text, "lost") {
		t.Errorf("the connection was given up:\n%s", text)
	}
}
