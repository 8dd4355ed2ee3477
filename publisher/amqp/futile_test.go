package amqp_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/amqp"
)

// twoNodes returns a publisher for two nodes. The first node confirms nothing, like a node that has lost contact with
// the cluster. The second confirms if well is true.
func twoNodes(t *testing.T, well bool) (p *amqp.Publisher, nodes map[string]*fake) {
	networks := map[string]*pipes{"minority:5672": newPipes(), "majority:5672": newPipes()}
	nodes = map[string]*fake{
		"minority:5672": newFake(t, networks["minority:5672"], func(*sent) {}),
		"majority:5672": newFake(t, networks["majority:5672"], func(m *sent) {
			if well {
				m.ack()
			}
		}),
	}
	p = amqp.New(amqp.Config{
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			return networks[address].Dial(ctx, network, address)
		},
		URL: func() (string, error) { return "amqp://relay:secret@minority,majority", nil },
	})
	t.Cleanup(func() { _ = p.Close() })
	return p, nodes
}

// A node that answers and confirms nothing is left for another one.
func TestNodeThatConfirmsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, _ := twoNodes(t, true)
		began := time.Now()
		for messages := numbered(60, 20, "queue"); len(messages) > 0; <-time.After(250 * time.Millisecond) {
			var left []publisher.Message
			for i, err := range p.Publish(within(t, 10*time.Second), messages) {
				if err != nil {
					left = append(left, messages[i])
				}
			}
			if messages = left; time.Since(began) > 30*time.Second {
				t.Fatalf("%d messages are not accepted after %v", len(messages), time.Since(began))
			}
		}
	})
}

// If no node confirms anything, the nodes are asked in turn, one a minute.
func TestNoNodeConfirmsAnything(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, nodes := twoNodes(t, false)
		message := numbered(1, 1, "queue")
		for began := time.Now(); time.Since(began) < 10*time.Minute; <-time.After(500 * time.Millisecond) {
			want(t, "a message", p.Publish(within(t, 10*time.Second), message)[0], publisher.Unavailable)
		}
		made := 0
		for address, node := range nodes {
			if len(node.connections()) < 3 {
				t.Errorf("%s was asked %d times in ten minutes", address, len(node.connections()))
			}
			made += len(node.connections())
		}
		if made > 15 {
			t.Errorf("%d connections were made in ten minutes", made)
		}
	})
}
