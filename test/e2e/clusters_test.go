package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/services/cluster"
)

var everyCase = flag.Bool("clusters", false, "run all cases of clusters that lose a node, not just the quick ones")

// clusterCase is a fault of a cluster of three nodes. Node 1 is the victim; node i leads topic i.
type clusterCase struct {
	name   string
	quick  bool // short enough for `make test`
	faults int  // number of faults that may cost duplicates: for each, the rows in flight
	// replicas of topic 1; 0 for all nodes.
	replicas int
	// aside connects the relay to another node than the victim, if it connects to a single node.
	aside   bool
	happens func(r *clusterRun)
}

// anyCluster is the list of cases that all brokers have in common.
var anyCluster = []clusterCase{
	{name: "kill", faults: 1, happens: func(r *clusterRun) {
		r.nodes[1].Kill()
		r.flow(0, 2)
		r.flow(0, 1, 2)
		r.start(1)
	}},
	{name: "stop", faults: 1, happens: func(r *clusterRun) {
		r.must(r.nodes[1].Stop())
		r.flow(0, 2)
		r.flow(0, 1, 2)
		r.start(1)
	}},
	{name: "freeze", quick: true, faults: 1, happens: freezeNode},
	{name: "freeze another", faults: 1, aside: true, happens: freezeNode},
	{name: "blackhole", faults: 1, happens: func(r *clusterRun) {
		r.must(cluster.Blackhole.Happens(r.nodes[1]))
		r.flow(0, 2)
		r.move(1, 0)
		r.flow(0, 1, 2)
		r.must(cluster.Blackhole.Ends(r.nodes[1]))
	}},
	{name: "leaders move", happens: func(r *clusterRun) {
		for i := range cluster.Size {
			r.move(i, (i+1)%cluster.Size)
			r.flow(0, 1, 2)
		}
	}},
	{name: "one topic without quorum", faults: 1, replicas: 2, happens: func(r *clusterRun) {
		r.nodes[1].Kill()
		r.flow(0, 2)
		r.held(1)
		r.start(1)
	}},
	{name: "all topics without quorum", faults: 2, happens: func(r *clusterRun) {
		r.nodes[1].Kill()
		r.nodes[2].Kill()
		r.held(0, 1, 2)
		r.must(r.nodes[1].Start())
		r.start(2)
		r.ready(1)
	}},
	{name: "rolled", faults: 3, happens: func(r *clusterRun) {
		ctx, cancel := context.WithTimeout(r.t.Context(), 2*cluster.Size*startPatience)
		defer cancel()
		r.must(cluster.Roll(ctx, r.Cluster, r.topics, func() { r.flow(0, 1, 2) }))
	}},
}

func freezeNode(r *clusterRun) {
	r.must(r.nodes[1].Freeze())
	r.flow(0, 2)
	r.flow(0, 1, 2)
	r.must(r.nodes[1].Thaw())
}

// clusterInFlight bounds the duplicates at each fault.
const clusterInFlight = 300

// runClusterCases runs the cases of a broker one after the other on one cluster, each with separate topics, a separate
// outbox and a separate relay.
func runClusterCases(t *testing.T, name string, exactly bool, cases []clusterCase) {
	if !*everyCase {
		cases = slices.DeleteFunc(slices.Clone(cases), func(c clusterCase) bool { return !c.quick })
	}
	limited, cancel := context.WithTimeout(t.Context(), 2*startPatience)
	defer cancel()
	c, err := cluster.Start(limited, name, cluster.Options{Checkout: "../..", Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for _, one := range cases {
		if exactly {
			one.faults = 0
		}
		if !t.Run(one.name, func(t *testing.T) { runClusterCase(t, name, c, one) }) {
			return // its remains would disturb the other cases
		}
	}
}

// clusterRun is the state of a case that runs.
type clusterRun struct {
	*table
	cluster.Cluster
	nodes  []*cluster.Node
	topics []string
	relay  *relay
	rows   int // number of rows inserted so far
}

func runClusterCase(t *testing.T, name string, c cluster.Cluster, one clusterCase) {
	r := &clusterRun{table: newTable(t), Cluster: c, nodes: c.Nodes()}
	for i := range cluster.Size {
		replicas := cluster.Size
		if i == 1 && one.replicas > 0 {
			replicas = one.replicas
		}
		r.topics = append(r.topics, uniqueTopic())
		r.within(func(ctx context.Context) error { return c.Create(ctx, r.topics[i], i, replicas) })
	}
	r.inSync()
	through := 1
	if one.aside {
		through = 0
	}
	r.connect(through)
	r.flow(0, 1, 2)
	one.happens(r)
	r.inSync()
	r.awaitDrained()
	b := brokerAt(t, name, r.nodes[0].URL)
	var got []delivery
	for _, topic := range r.topics {
		got = append(got, receivedFrom(t, b, topic)...)
	}
	checkWithin(t, r.table, got, one.faults*clusterInFlight)
	r.checkUnspent(everyRow)
	r.relay.stop()
}

// connect starts the relay, which at first reaches only one node.
func (r *clusterRun) connect(through int) {
	r.t.Helper()
	restore, err := cluster.Through(r.Cluster, through)
	r.must(err)
	r.relay = startRelay(r.t, r.env(r.URL(), fmt.Sprint("OUTBOX_MAX_IN_FLIGHT=", clusterInFlight)))
	await(r.t, "the destination is reached", func() bool { // a relay that owns nothing is ready before this
		return r.relay.metric(`destination_up{destination="default"}`) == "1"
	})
	r.must(restore())
}

// receivedFrom returns the messages that a topic holds, except those that only tested it.
func receivedFrom(t *testing.T, b broker, topic string) []delivery {
	t.Helper()
	return slices.DeleteFunc(b.received(t, topic), func(d delivery) bool { return d.id == "" })
}

func (r *clusterRun) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// within runs an operation for which the cluster needs some time.
func (r *clusterRun) within(do func(ctx context.Context) error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeoutCause(r.t.Context(), startPatience, errors.New("it takes too long"))
	defer cancel()
	r.must(do(ctx))
}

// start starts a node and waits until it serves clients.
func (r *clusterRun) start(node int) {
	r.t.Helper()
	r.within(r.nodes[node].Restart)
}

func (r *clusterRun) ready(node int) {
	r.t.Helper()
	r.within(r.nodes[node].Ready)
}

func (r *clusterRun) move(topic, to int) {
	r.t.Helper()
	r.within(func(ctx context.Context) error { return r.Move(ctx, r.topics[topic], to) })
}

// inSync waits until all topics have all replicas.
func (r *clusterRun) inSync() {
	r.t.Helper()
	awaitWithin(r.t, startPatience, "all replicas are in sync", func() bool {
		return r.InSync(r.t.Context(), r.topics...)
	})
}

const clusterKeys = 20 // keys of each topic

// add inserts two rows of each key into all topics.
func (r *clusterRun) add() {
	r.t.Helper()
	r.Exec(r.t, `insert into outbox_messages (topic, key, payload)
		select topic, topic || k, jsonb_build_object('n', $2::int + n, 'filler', repeat('x', 200))
		from generate_series(0, 1) n, unnest($1::text[]) topic, generate_series(1, $3::int) k order by
		n`, r.topics, r.rows, clusterKeys)
	r.rows += 2
}

// flow inserts rows into all topics, round by round while the fault lasts. In each round it waits until the rows of the
// given topics are relayed.
func (r *clusterRun) flow(topics ...int) {
	r.t.Helper()
	var names []string
	for _, i := range topics {
		names = append(names, r.topics[i])
	}
	began := time.Now()
	const rounds = 15
	var first time.Duration
	for i := range rounds {
		r.add()
		await(r.t, fmt.Sprintf("round %d of rows for topics %v is relayed", i, topics), func() bool {
			r.relay.mustRun()
			return r.count(isPending+" and topic = any($1)", names) == 0
		})
		if i == 0 {
			first = time.Since(began)
		}
	}
	took := time.Since(began)
	r.t.Logf("topics %v: the first rows after %v, %d rounds after %v", topics, first.Round(time.Millisecond), rounds,
		took.Round(time.Millisecond))
	if took > patience {
		r.t.Error("that is too long")
	}
}

// held waits until the relay reports that rows of the topics are held, and checks that none is relayed.
func (r *clusterRun) held(topics ...int) {
	r.t.Helper()
	var names []string
	for _, i := range topics {
		names = append(names, r.topics[i])
	}
	r.add()
	await(r.t, "rows are held", func() bool {
		_, metrics := r.relay.get("/metrics")
		for line := range strings.Lines(metrics) {
			if strings.HasPrefix(line, "outbox_relay_rows_held{") && !strings.HasSuffix(strings.TrimSpace(line), " 0") {
				return true
			}
		}
		return false
	})
	if relayed := r.count(isRelayed+" and topic = any($1) and (payload->>'n')::int >= $2", names, r.rows-2); relayed > 0 {
		r.t.Errorf("%d rows were relayed meanwhile", relayed)
	}
}
