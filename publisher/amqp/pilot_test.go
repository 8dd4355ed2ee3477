package amqp_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/amqp"
)

// blockedChannels is a fake broker on which the leaders of some queues are on a node that does not answer. The first
// message of a channel for such a queue blocks everything after it on the channel.
type blockedChannels struct {
	*fake
	publisher *amqp.Publisher

	mu      sync.Mutex
	blocked map[string]bool // channels that are blocked
	copies  map[string]int  // number of copies of each message that was confirmed
}

func newBlockedChannels(t *testing.T, away func(topic string) bool) *blockedChannels {
	b := &blockedChannels{blocked: map[string]bool{}, copies: map[string]int{}}
	network := newPipes()
	b.fake = newFake(t, network, func(m *sent) {
		b.mu.Lock()
		defer b.mu.Unlock()
		channel := fmt.Sprintf("%p/%d", m.conn, m.channel)
		if b.blocked[channel] = b.blocked[channel] || away(m.topic); !b.blocked[channel] {
			b.copies[m.id]++
			m.ack()
		}
	})
	b.publisher = amqp.New(amqp.Config{Dial: network.Dial, URL: func() (string, error) {
		return "amqp://relay:secret@broker", nil
	}})
	t.Cleanup(func() { _ = b.publisher.Close() })
	return b
}

// A node falls silent. On the next node, the queues that it led do not delay other queues: within a second, all rows of
// the other queues are accepted, each queue being tried by one message first.
func TestQueuesOfASilentNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var fell bool
		b := newBlockedChannels(t, func(topic string) bool { return fell && (topic == "queue-1" || topic == "queue-4") })
		messages := numbered(600, 0, "")
		for i := range messages {
			messages[i].Topic = fmt.Sprint("queue-", i%7)
		}
		for i, err := range b.publisher.Publish(within(t, 10*time.Second), messages) {
			want(t, messages[i].Topic, err, publisher.Accepted)
		}
		b.mu.Lock()
		fell = true
		b.mu.Unlock()
		for _, c := range b.connections() {
			c.deaf.Store(true)
		}
		flying := slices.Clone(messages[:7]) // one of each queue
		for i := range flying {
			flying[i].ID = fmt.Sprint("flying-", i)
		}
		for _, err := range b.publisher.Publish(within(t, 10*time.Second), flying) {
			want(t, "a message", err, publisher.Unavailable)
		}
		<-time.After(time.Second) // pause in which no dial happens
		for i := range messages {
			messages[i].ID = fmt.Sprint("second-", i)
		}
		began := time.Now()
		for i, err := range b.publisher.Publish(within(t, 10*time.Second), messages) {
			class := publisher.Accepted
			if messages[i].Topic == "queue-1" || messages[i].Topic == "queue-4" {
				class = publisher.Unavailable
			} else if n := b.copies[messages[i].ID]; n != 1 {
				t.Errorf("a message is there %d times", n)
			}
			want(t, messages[i].Topic, err, class)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
