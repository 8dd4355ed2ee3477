package amqp_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A proxy between the relay and the broker refuses further channels, without ending the connection.
func TestProxyRefusesChannels(t *testing.T) {
	t.Parallel()
	for _, opens := range []byte{1, 3} {
		t.Run(fmt.Sprint(opens), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, listen(t), func(m *sent) { m.ack() })
			f.opens = opens
			p := f.open(t, "ex") // looks for the exchange, on the channel that there is
			if err := p.Ping(within(t, 10*time.Second)); err != nil {
				t.Fatal(err)
			}
			var group sync.WaitGroup
			for range 4 {
				group.Go(func() {
					for i, err := range p.Publish(within(t, 10*time.Second), numbered(100, 10, "topic")) {
						want(t, fmt.Sprint("message ", i), err, publisher.Accepted)
					}
				})
			}
			group.Wait()
			if n := len(f.connections()); n != 1 {
				t.Errorf("%d connections, want one", n)
			}
		})
	}
}

// A connection that ends because of a frame (frame_max of a proxy) or of heartbeats that do not arrive speaks against
// no message, and nothing is spent.
func TestConnectionEndsForNoMessage(t *testing.T) {
	t.Parallel()
	for code, reason := range map[uint16]string{
		501: "FRAME_ERROR - frame too large", 541: "INTERNAL_ERROR",
		505: "UNEXPECTED_FRAME",
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, listen(t), func(m *sent) { m.conn.closeConnection(code, reason) })
			p := f.open(t, "")
			told := false
			for until := within(t, 10*time.Second); !told && until.Err() == nil; {
				for i, err := range p.Publish(until, numbered(3, 0, "topic")) {
					switch class := publisher.ClassOf(err); class {
					case publisher.Ambiguous, publisher.Unavailable:
						told = told || strings.Contains(err.Error(), strings.Fields(reason)[0])
					default:
						t.Fatalf("message %d is %v: %v", i, class, err)
					}
				}
			}
			if !told {
				t.Error("no answer gives the reason")
			}
		})
	}
	t.Run("heartbeats are swallowed", func(t *testing.T) {
		t.Parallel()
		f := newFake(t, listen(t), func(m *sent) { m.ack() })
		f.heartbeat = 1
		p := f.open(t, "")
		for range 2 {
			await(t, func() bool {
				err := p.Publish(within(t, 10*time.Second), numbered(1, 0, "topic"))[0]
				if err != nil {
					want(t, "a message between connections", err, publisher.Unavailable)
				}
				return err == nil
			})
			before := len(f.connections())
			await(t, func() bool { return len(f.connections()) > before })
		}
	})
}

// The broker's own words say why a virtual host cannot be entered.
func TestVirtualHostIsDown(t *testing.T) {
	t.Parallel()
	const reason = "access to vhost 'shop' refused for user 'user': vhost 'shop' is down"
	for code, prefix := range map[uint16]string{530: "NOT_ALLOWED - ", 541: "INTERNAL_ERROR - "} {
		f := newFake(t, listen(t), func(*sent) {})
		f.enter = func(c *fakeConn) { c.closeConnection(code, prefix+reason) }
		err := f.open(t, "").Ping(within(t, 10*time.Second))
		want(t, prefix, err, publisher.Unavailable)
		if err == nil || !strings.Contains(err.Error(), "is down") {
			t.Errorf("%v does not say that the virtual host is down", err)
		}
	}
}
