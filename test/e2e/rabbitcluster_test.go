package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"
)

// rabbitCluster is three nodes of a test's own.
type rabbitCluster struct {
	*rabbitBroker
	nodes []*node
	urls  []string
}

func newRabbitCluster(t testing.TB) *rabbitCluster {
	t.Helper()
	program, ctl, mapper := installed(t, "rabbitmq", "rabbitmq-server"), installed(t, "rabbitmq", "rabbitmqctl"),
		installed(t, "rabbitmq", "epmd")
	const nodes = 3
	ports := freePorts(t, 2*nodes+1)
	epmd := newNode(t, "epmd") // Erlang's port mapper; nodes would start one that stays
	epmd.command = []string{mapper, "-address", "127.0.0.1", "-port", fmt.Sprint(ports[2*nodes])}
	epmd.start()
	c := &rabbitCluster{}
	var hosts []string
	for i := range nodes {
		n := newNode(t, fmt.Sprintf("n%d@localhost", i))
		n.write(".erlang.cookie", "cluster")
		n.command = []string{program}
		n.env = []string{
			"HOME=" + n.dir, "RABBITMQ_NODENAME=" + n.name, "RABBITMQ_NODE_IP_ADDRESS=127.0.0.1", fmt.Sprint("RABBITMQ_NODE_PORT=", ports[i]),
			fmt.Sprint("RABBITMQ_DIST_PORT=", ports[nodes+i]), fmt.Sprint("ERL_EPMD_PORT=", ports[2*nodes]), "ERL_EPMD_ADDRESS=127.0.0.1",
			"RABBITMQ_MNESIA_BASE=" + n.dir, "ERL_CRASH_DUMP=" + n.dir + "/crash", "RABBITMQ_LOGS=-", "RABBITMQ_PID_FILE=" + n.dir + "/pid",
			"RABBITMQ_CONF_ENV_FILE=" + n.write("env.conf", ""), "RABBITMQ_ENABLED_PLUGINS_FILE=" + n.write("plugins", "[]."),
			"RABBITMQ_CONFIG_FILE=" + n.write("rabbitmq.conf", strings.Join([]string{
				"cluster_formation.peer_discovery_backend = classic_config",
				"cluster_formation.classic_config.nodes.1 = n0@localhost",
				"disk_free_limit.absolute = 100MB",
			}, "\n")),
			// Without a shell in between that would outlive it.
			"RABBITMQ_ALLOW_INPUT=true",
			"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-noinput -kernel inet_dist_use_interface {127,0,0,1} +sbwt none +sbwtdcpu none +sbwtdio none",
		}
		host := fmt.Sprint("127.0.0.1:", ports[i])
		c.nodes, hosts = append(c.nodes, n), append(hosts, host)
		c.urls = append(c.urls, "amqp://guest:guest@"+host+"/")
	}
	// Nodes that start all at once would wait for each other at random.
	c.nodes[0].start()
	c.awaitNode(t, 0)
	c.nodes[1].start()
	c.nodes[2].start()
	all := exec.Command(ctl, "await_online_nodes", fmt.Sprint(nodes))
	all.Env = append(all.Environ(), c.nodes[0].env...)
	if out, err := all.CombinedOutput(); err != nil {
		t.Fatalf("the nodes have not found each other: %v\n%s", err, out)
	}
	for i := range nodes { // one that is still starting does not survive the death of another
		c.awaitNode(t, i)
	}
	c.rabbitBroker = newRabbit(t, "amqp://guest:guest@"+strings.Join(hosts, ",")+"/")
	return c
}

// awaitNode waits until a node takes connections.
func (c *rabbitCluster) awaitNode(t testing.TB, i int) {
	t.Helper()
	awaitWithin(t, startPatience, c.nodes[i].name+" takes connections", func() bool {
		c.nodes[i].mustRun()
		conn, err := amqp091.Dial(c.urls[i])
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}

// TestRabbitCluster kills two of three nodes under a relay that drains, first the leader of the queue and another, then
// all but the leader. Without a majority the rows wait, and they arrive when the two are back.
func TestRabbitCluster(t *testing.T) {
	t.Parallel()
	c := newRabbitCluster(t)
	first := newRabbit(t, c.urls[0])
	topic := first.topic(t) // its leader is the node that it is declared on
	f := startTraffic(t, c, topic)
	for _, victims := range [][]int{{0, 1}, {1, 2}} {
		f.backlog(5000)
		for _, i := range victims {
			c.nodes[i].kill()
		}
		later := f.rows
		f.checkHeld("RabbitMQ did not take the message", "lacks the majority of its nodes")
		for _, i := range victims {
			c.nodes[i].start()
		}
		for _, i := range victims {
			c.awaitNode(t, i)
		}
		back := time.Now()
		await(t, "rows flow", func() bool { return f.relayedFrom(later) > 0 })
		took := time.Since(back)
		f.awaitDrained()
		t.Logf("rows flowed %v after the nodes were back, all within %v", took.Round(time.Millisecond), time.Since(back).Round(time.Millisecond))
	}
	checkBounded(t, f.table, first.received(t, topic), 2)
	f.checkUnspent(everyRow)
	f.relay.stop()
}
