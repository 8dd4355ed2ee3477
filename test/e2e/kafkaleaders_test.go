package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/outbox-relay/outbox-relay/test/testkit"
)

// TestKafkaCluster moves, stops, freezes and kills the leaders of three brokers under a relay that drains, until
// too few of them are left: nothing is lost, nothing is out of order and nothing arrives twice, no attempt
// is spent, and each partition is written to again soon after it has a leader.
func TestKafkaCluster(t *testing.T) {
	t.Parallel()
	c := newKafkaCluster(t)
	topic := uniqueTopic()
	c.createAs(t, testkit.Topic{Name: topic, Configs: map[string]string{"min.insync.replicas": "2"}})
	d := &leaderFaults{traffic: startTraffic(t, c, topic, "OUTBOX_BATCH_SIZE=200"), cluster: c}

	d.strike("leaders moved", 0, func() { c.move(topic) })
	d.strike("leader stopped", 2, c.nodes[1].stop)
	d.recover(2)
	d.strike("leader frozen", 3, c.nodes[2].freeze)
	c.nodes[2].thaw()
	d.recover()
	c.move(topic) // so that node 3 leads some again
	d.strike("leader killed", 3, c.nodes[2].kill)
	d.tooFew(2)
	d.recover(2, 3)
	d.compare()
}

// leaderFaults is traffic to a cluster while something happens to it.
type leaderFaults struct {
	*traffic
	cluster *kafkaCluster
	struck  []struckLeaders
}

// struckLeaders are partitions that had to find another leader.
type struckLeaders struct {
	fault      string
	partitions []int
	led        time.Time // when all of them had one
}

// flow goes on inserting until something has happened.
func (d *leaderFaults) flow(what string, happened func() bool) {
	d.t.Helper()
	await(d.t, what, func() bool {
		d.add(20)
		return happened()
	})
}

// strike lets something happen to the partitions that a node leads, or to all for 0, in the middle of a backlog.
// The node leads none of them afterwards. It returns when rows of every key have been relayed that came later.
func (d *leaderFaults) strike(fault string, node int, happen func()) {
	d.t.Helper()
	var partitions []int
	for _, p := range d.cluster.partitions(d.topic) {
		if node == 0 || p.Leader.ID == node {
			partitions = append(partitions, p.ID)
		}
	}
	if len(partitions) == 0 {
		d.t.Fatalf("%s: node %d leads nothing", fault, node)
	}
	d.backlog(10000)
	happen()
	d.flow(fault+": every partition has a leader", func() bool {
		return !slices.ContainsFunc(d.cluster.partitions(d.topic),
			func(p kafka.Partition) bool { return p.Leader.ID <= 0 || p.Leader.ID == node })
	})
	d.struck = append(d.struck, struckLeaders{fault, partitions, time.Now()})
	later := d.rows
	d.flow(fault+": rows of each key are relayed", func() bool {
		return d.relayedFrom(later) >= d.keys
	})
}

// recover starts nodes again and waits until their replicas are in sync.
func (d *leaderFaults) recover(nodes ...int) {
	d.t.Helper()
	for _, node := range nodes {
		d.cluster.nodes[node-1].start()
	}
	d.flow("all replicas are in sync", func() bool { return d.cluster.inSync(d.topic) })
}

// tooFew kills the last but one node: fewer replicas are in sync than the topic asks for, and its rows wait.
func (d *leaderFaults) tooFew(node int) {
	d.t.Helper()
	d.cluster.nodes[node-1].kill()
	d.checkHeld("the number of in-sync replicas is lower than the configured minimum")
}

// compare drains, and compares what has arrived.
func (d *leaderFaults) compare() {
	d.t.Helper()
	d.awaitDrained()
	got := newKafka(d.t, d.cluster.address).received(d.t, d.topic) // the cluster's client knows leaders of the past
	check(d.t, d.table, got)
	d.checkUnspent(everyRow)
	relayed := d.relayedAt()
	for _, s := range d.struck {
		first := map[int]time.Duration{} // by partition, since it had a leader
		for _, m := range got {
			took := relayed[m.id].Sub(s.led)
			if before, found := first[m.partition]; took > 0 && (!found || took < before) {
				first[m.partition] = took
			}
		}
		var slowest time.Duration
		for _, partition := range s.partitions {
			slowest = max(slowest, first[partition])
		}
		d.t.Logf("%s: all %d partitions were written to within %v of their having a leader", s.fault, len(s.partitions),
			slowest.Round(time.Millisecond))
		if slowest > 20*time.Second {
			d.t.Errorf("%s: a partition was written to only %v after it had a leader", s.fault, slowest)
		}
	}
	d.t.Logf("%d rows", d.rows)
	d.relay.stop()
}
