package kafka

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// One broker of three that cannot be reached does not affect the others.
func TestOneAddressOfSeveral(t *testing.T) {
	t.Parallel()
	publishertest.RunCluster(t, fakeAddresses{newFakeCluster(t, 3)})
}

// fakeAddresses are the brokers of a cluster, each of which leads topics that no other broker leads.
type fakeAddresses struct{ *fakeCluster }

func (f fakeAddresses) Open(_ *testing.T, network *publishertest.Network) (
	p publisher.Publisher, topics map[string]string,
) {
	topics = map[string]string{}
	var addresses []string
	for _, b := range f.brokers {
		address, name := b.listener.Addr().String(), rand.Text()
		f.topic(name, b.id, b.id)
		topics[address], addresses = name, append(addresses, address)
	}
	return f.open(func(c *Config) { c.Brokers, c.Dial = addresses, network.Dial }), topics
}

// Received implements [publishertest.Cluster].
func (f fakeAddresses) Received(t *testing.T, topic string, n int) (all []publisher.Message) {
	t.Helper()
	late := time.Now().Add(time.Minute)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ; len(all) < n; <-tick.C {
		if time.Now().After(late) {
			t.Fatalf("topic %s holds %d messages, not %d", topic, len(all), n)
		}
		all = nil
		f.set(func() {
			for _, p := range f.topics[topic] {
				all = append(all, p.records...)
			}
		})
	}
	return all
}
