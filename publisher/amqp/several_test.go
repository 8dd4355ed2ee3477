package amqp_test

import (
	"context"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/amqp"
	"github.com/outbox-relay/outbox-relay/publisher/internal/connect"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// A node of three that cannot be reached is left for another one.
func TestOneAddressOfSeveral(t *testing.T) {
	t.Parallel()
	publishertest.RunCluster(t, several{newHarness(t, "", amqp091.QueueTypeClassic)})
}

// A node that takes longer than a turn, because it is far away or asks another service about the user, is waited for
// also if the node behind it in the URL is away.
func TestSlowAddressBeforeOneThatIsAway(t *testing.T) {
	t.Parallel()
	slow, away := newFake(t, listen(t), func(m *sent) { m.ack() }), listen(t)
	_ = away.Close()
	url := "amqp://" + slow.listener.Addr().String() + "," + away.Addr().String()
	p := amqp.New(amqp.Config{
		URL: func() (string, error) { return url, nil },
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if until, _ := ctx.Deadline(); address != away.Addr().String() && time.Until(until) < 2*connect.LoginTurn {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	})
	t.Cleanup(func() { _ = p.Close() })
	until := within(t, 10*time.Second)
	await(t, func() bool { return until.Err() != nil || p.Ping(until) == nil })
	want(t, "the slow node's message", p.Publish(until, numbered(1, 0, "topic"))[0], publisher.Accepted)
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
