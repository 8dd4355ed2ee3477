package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/segmentio/kafka-go"
)

// kafkaCluster is some brokers, usually three, of a test's own. The first is the controller as well.
type kafkaCluster struct {
	*kafkaBroker
	t     testing.TB
	nodes []*node // node 1 is nodes[0]
}

func newKafkaCluster(t testing.TB, more ...string) *kafkaCluster {
	t.Helper()
	return newKafkaNodes(t, 3, func(address string) string { return address }, more...)
}

// newKafkaNodes starts a cluster of so many brokers. advertise returns the address by which clients find a broker.
func newKafkaNodes(t testing.TB, nodes int, advertise func(address string) string, more ...string) *kafkaCluster {
	t.Helper()
	program, storage := installed(t, "kafka", "kafka-server"), installed(t, "kafka", "kafka-storage")
	ports := freePorts(t, nodes+1)
	controller := fmt.Sprint("127.0.0.1:", ports[nodes])
	c := &kafkaCluster{t: t}
	var addresses []string
	for i := range nodes {
		id, address := i+1, fmt.Sprint("127.0.0.1:", ports[i])
		n := newNode(t, fmt.Sprint("Kafka ", id))
		roles, listeners := "broker", "PLAINTEXT://"+address
		if i == 0 {
			roles, listeners = "broker,controller", "PLAINTEXT://"+address+",CONTROLLER://"+controller
		}
		properties := n.write("server.properties", strings.Join(append([]string{
			"process.roles=" + roles, fmt.Sprint("node.id=", id),
			"controller.quorum.voters=1@" + controller,
			"controller.listener.names=CONTROLLER",
			"listeners=" + listeners, "advertised.listeners=PLAINTEXT://" + advertise(address),
			"log.dirs=" + n.dir + "/data", "auto.create.topics.enable=false", "auto.leader.rebalance.enable=false",
			// A killed broker is noticed soon.
			"broker.session.timeout.ms=2000", "broker.heartbeat.interval.ms=500",
			// While a leader is new it waits for its followers for as long as these say, which is not what is measured.
			"replica.fetch.wait.max.ms=50", "replica.fetch.backoff.ms=50",
		}, more...), "\n"))
		n.command = []string{"sh", "-c", `[ -d data ] || "$0" format -t MkU3OEVBNTcwNTJENDM2Qg -c "$2" && exec "$1" "$2"`, storage, program,
			properties}
		n.env = []string{"KAFKA_JVM_OPTIONS=-Xmx384m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
		n.start()
		c.nodes, addresses = append(c.nodes, n), append(addresses, address)
	}
	for _, n := range c.nodes {
		n.awaitLog("Kafka Server started")
	}
	c.kafkaBroker = newKafka(t, "kafka://"+strings.Join(addresses, ","))
	c.replicas = nodes
	return c
}

// partitions returns who leads each partition and which nodes are in sync, as node 1 sees it now.
func (c *kafkaCluster) partitions(topic string) []kafka.Partition {
	c.t.Helper()
	first, _, _ := strings.Cut(strings.TrimPrefix(c.address, "kafka://"), ",")
	conn, err := kafka.DialContext(c.t.Context(), "tcp", first)
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close()
	partitions, err := conn.ReadPartitions(topic)
	if err != nil {
		c.t.Fatalf("partitions of %s: %v", topic, err)
	}
	slices.SortFunc(partitions, func(a, b kafka.Partition) int { return a.ID - b.ID })
	return partitions
}

// inSync reports whether each partition has a leader and all its replicas.
func (c *kafkaCluster) inSync(topic string) bool {
	c.t.Helper()
	return !slices.ContainsFunc(c.partitions(topic), func(p kafka.Partition) bool { return p.Leader.ID <= 0 || len(p.Isr) < c.replicas })
}

// move gives each partition to the next node.
func (c *kafkaCluster) move(topic string) {
	c.t.Helper()
	request := &kafka.AlterPartitionReassignmentsRequest{Topic: topic, Timeout: patience}
	wanted, all := map[int]int{}, []int{}
	for _, p := range c.partitions(topic) {
		var nodes []int
		for i := range c.replicas {
			nodes = append(nodes, (p.Leader.ID+i)%c.replicas+1)
		}
		request.Assignments = append(request.Assignments, kafka.AlterPartitionReassignmentsRequestAssignment{PartitionID: p.ID, BrokerIDs: nodes})
		wanted[p.ID], all = nodes[0], append(all, p.ID)
	}
	await(c.t, "the replicas are reassigned", func() bool { // a controller that has just moved ends connections
		reassigned, err := c.client.AlterPartitionReassignments(c.t.Context(), request)
		return err == nil && reassigned.Error == nil
	})
	elected, err := c.client.ElectLeaders(c.t.Context(), &kafka.ElectLeadersRequest{Topic: topic, Partitions: all, Timeout: patience})
	if err == nil {
		err = elected.Error
	}
	if err != nil {
		c.t.Fatalf("elect leaders of %s: %v", topic, err)
	}
	await(c.t, "the leaders have moved", func() bool {
		return !slices.ContainsFunc(c.partitions(topic), func(p kafka.Partition) bool { return p.Leader.ID != wanted[p.ID] })
	})
}
