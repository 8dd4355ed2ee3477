package publishertest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A Cluster is what the suite needs from a broker with several addresses.
type Cluster interface {
	// Open returns a publisher that knows all addresses and reaches them only through network. It also returns a topic
	// for each address, whose messages need the server at that address. If any server takes every message, each address
	// has a topic all the same. The suite closes the publisher.
	Open(t *testing.T, network *Network) (p publisher.Publisher, topics map[string]string)

	// Received is the method of [Harness].
	Received(t *testing.T, topic string, n int) []publisher.Message
}

// RunCluster runs the tests of single unreachable addresses as parallel subtests.
func RunCluster(t *testing.T, c Cluster) {
	t.Helper()
	for name, disturb := range map[string]func(Route){"cut": Route.Cut, "frozen": Route.Freeze, "muted": Route.Mute} {
		t.Run("goes on while one address of several is "+name, func(t *testing.T) {
			t.Parallel()
			oneAddress(t, c, disturb)
		})
	}
}

// oneAddress disturbs the route to each address in turn, so that every server on which the publisher relies is hit
// once.
func oneAddress(t *testing.T, c Cluster, disturb func(Route)) {
	network := NewNetwork()
	p, topics := c.Open(t, network)
	j := newJournalOf(t, p, c, network)
	var all []string
	for _, topic := range topics {
		all = append(all, topic)
	}
	j.persist(messages(100, 20, all...))
	for address, hit := range topics {
		others := slices.DeleteFunc(slices.Clone(all), func(topic string) bool { return topic == hit })
		waiting := messages(40, 10, hit)
		for i := range waiting { // no other messages have these keys
			waiting[i].Key = append([]byte("waiting-"), waiting[i].Key...)
		}
		disturb(network.Route(address))
		j.persistBeside(waiting, messages(200, 20, others...))
		j.persist(messages(200, 20, others...))
		network.Route(address).Restore()
		j.persist(waiting)
		j.persist(messages(100, 20, all...))
	}
	j.compare(all...)
}

// persistBeside publishes until all messages are accepted, in calls that begin with messages for an address that cannot
// be reached.
func (j *journal) persistBeside(unreachable, messages []publisher.Message) {
	j.t.Helper()
	late := time.Now().Add(patience)
	for len(messages) > 0 {
		ctx, cancel := context.WithTimeout(j.t.Context(), silence)
		answers := j.publish(ctx, slices.Concat(unreachable, messages))
		cancel()
		expect(j.t, answers, publisher.Accepted, publisher.NotAttempted, publisher.Unavailable, publisher.Ambiguous)
		if messages = notAccepted(messages, answers[len(unreachable):]); time.Now().After(late) {
			j.t.Fatalf("%d messages for addresses that can be reached still not accepted after %v", len(messages),
				patience)
		}
		unreachable = notAccepted(unreachable, answers)
	}
}
