package amqp_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/amqp"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// A node of three that cannot be reached is left for another one.
func TestOneAddressOfSeveral(t *testing.T) {
	t.Parallel()
	publishertest.RunCluster(t, several{newHarness(t, "", amqp091.QueueTypeClassic)})
}

// several is one server with three names.
type several struct{ *harness }

func (h several) Open(t *testing.T, network *publishertest.Network) (p publisher.Publisher, topics map[string]string) {
	u, err := url.Parse(h.url)
	if err != nil {
		t.Fatal(err)
	}
	topics = map[string]string{}
	var hosts []string
	for _, address := range []string{"one.test:5672", "two.test:5672", "three.test:5672"} {
		network.Alias(address, u.Host)
		topics[address], hosts = h.Topic(t), append(hosts, address)
	}
	u.Host = strings.Join(hosts, ",")
	all := u.String()
	return amqp.New(amqp.Config{URL: func() (string, error) {
		return all, nil
	}, Dial: network.Dial, Name: t.Name()}), topics
}
