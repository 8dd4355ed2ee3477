package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/outbox-relay/outbox-relay/test/testkit"
)

// natsCluster is three servers of a test's own.
type natsCluster struct {
	*natsBroker
	nodes []*node
}

func newNATSCluster(t testing.TB) *natsCluster {
	t.Helper()
	program := installed(t, "nats", "nats-server")
	const nodes = 3
	ports := freePorts(t, 2*nodes)
	c := &natsCluster{}
	var addresses, routes []string
	for _, port := range ports[nodes:] {
		routes = append(routes, fmt.Sprint("nats://127.0.0.1:", port))
	}
	for i := range nodes {
		n := newNode(t, fmt.Sprint("s", i))
		n.command = []string{program, "-c", n.write("nats.conf", strings.Join([]string{
			"server_name: " + n.name,
			fmt.Sprint("listen: 127.0.0.1:", ports[i]),
			fmt.Sprintf("cluster { name: c, listen: 127.0.0.1:%d, routes: [%s] }", ports[nodes+i], strings.Join(routes, ", ")),
			fmt.Sprintf("jetstream { store_dir: %q }", n.dir),
		}, "\n"))}
		n.start()
		c.nodes, addresses = append(c.nodes, n), append(addresses, fmt.Sprint("127.0.0.1:", ports[i]))
	}
	for _, n := range c.nodes {
		n.awaitLog("Server is ready")
	}
	c.natsBroker = newNATS(t, "nats://"+strings.Join(addresses, ","))
	c.replicas = nodes
	await(t, "the servers have found each other", func() bool {
		_, err := c.js.AccountInfo(t.Context())
		return err == nil
	})
	return c
}

// leader returns the server that leads the topic's stream, nil while none does.
func (c *natsCluster) leader(t testing.TB, topic string) *node {
	t.Helper()
	s, err := c.js.Stream(t.Context(), testkit.StreamOf(topic))
	if err != nil || s.CachedInfo().Cluster == nil {
		return nil
	}
	for _, n := range c.nodes {
		if n.name == s.CachedInfo().Cluster.Leader {
			return n
		}
	}
	return nil
}

// awaitLeader waits until the topic's stream has a leader other than these.
func (c *natsCluster) awaitLeader(t testing.TB, topic string, not ...*node) *node {
	t.Helper()
	var leader *node
	await(t, "the stream has a leader", func() bool {
		leader = c.leader(t, topic)
		return leader != nil && !slices.Contains(not, leader)
	})
	return leader
}

// awaitInSync waits until all servers follow the stream's leader.
func (c *natsCluster) awaitInSync(t testing.TB, topic string) {
	t.Helper()
	await(t, "all servers follow", func() bool {
		s, err := c.js.Stream(t.Context(), testkit.StreamOf(topic))
		return err == nil && !slices.ContainsFunc(s.CachedInfo().Cluster.Replicas,
			func(p *jetstream.PeerInfo) bool { return !p.Current || p.Offline })
	})
}

// awaitServed waits until the topic's stream can be consumed: the cluster has a leader of its own, later perhaps
// than the stream.
func (c *natsCluster) awaitServed(t testing.TB, topic string) {
	t.Helper()
	await(t, "consumers can be made", func() bool {
		_, err := c.js.CreateConsumer(t.Context(), testkit.StreamOf(topic), jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy})
		return err == nil
	})
}

// TestNATSCluster kills servers of a cluster under a relay that drains. With the stream's leader away another
// takes over; without two of three there is no quorum, and the rows wait until the two are back.
func TestNATSCluster(t *testing.T) {
	t.Parallel()
	c := newNATSCluster(t)
	topic := c.topic(t)
	f := startTraffic(t, c, topic)

	leader := c.awaitLeader(t, topic)
	f.backlog(10000)
	leader.kill()
	killed, later := time.Now(), f.rows
	f.add(1000)
	c.awaitLeader(t, topic, leader)
	led := time.Now()
	await(t, "rows flow to another leader", func() bool { return f.relayedFrom(later) > 0 })
	f.awaitDrained()
	t.Logf("another leader after %v, all relayed within %v of that", led.Sub(killed).Round(time.Millisecond),
		time.Since(led).Round(time.Millisecond))
	leader.start()
	c.awaitInSync(t, topic)

	leader = c.awaitLeader(t, topic)
	other := c.nodes[(slices.Index(c.nodes, leader)+1)%len(c.nodes)]
	f.backlog(10000)
	leader.kill()
	other.kill()
	later = f.rows
	f.checkHeld("most of the servers of its", "are away") // stream, or cluster, as the server that is left says it
	leader.start()
	other.start()
	c.awaitLeader(t, topic)
	led = time.Now()
	await(t, "rows flow", func() bool { return f.relayedFrom(later) > 0 })
	took := time.Since(led)
	f.awaitDrained()
	t.Logf("rows flowed %v after the stream had a leader again, all within %v", took.Round(time.Millisecond),
		time.Since(led).Round(time.Millisecond))
	if took > 5*time.Second {
		t.Errorf("rows flowed only %v after the stream had a leader", took)
	}
	c.awaitInSync(t, topic)
	c.awaitServed(t, topic)
	checkBounded(t, f.table, c.received(t, topic), 2)
	f.checkUnspent(everyRow)
	f.relay.stop()
}
