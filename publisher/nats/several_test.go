package nats_test

import (
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/services"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/nats"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// A server of three that cannot be reached is left for another one.
func TestOneAddressOfSeveral(t *testing.T) {
	t.Parallel()
	publishertest.RunCluster(t, several{harness{js: broker(t)}})
}

// several is one server with three names.
type several struct{ harness }

func (h several) Open(t *testing.T, network *publishertest.Network) (p publisher.Publisher, topics map[string]string) {
	real := strings.TrimPrefix(services.Endpoint(t, "TEST_NATS_URL"), "nats://")
	topics = map[string]string{}
	var servers []string
	for _, address := range []string{"one.test:4222", "two.test:4222", "three.test:4222"} {
		network.Alias(address, real)
		topics[address], servers = h.Topic(t), append(servers, "nats://"+address)
	}
	return open(t, nats.Config{Servers: servers, Dial: network.Dial}), topics
}
