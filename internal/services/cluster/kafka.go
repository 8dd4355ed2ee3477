package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
)

// KafkaPartitions is the number of partitions of a topic in a Kafka cluster.
const KafkaPartitions = 6

// A Kafka is three brokers, each also a controller. Node i has the id i+1.
type Kafka struct {
	nodes
	transport *kafka.Transport
	client    *kafka.Client
}

var _ Cluster = (*Kafka)(nil)

func startKafka(ctx context.Context, o Options) (*Kafka, error) {
	k := &Kafka{}
	k.transport = &kafka.Transport{Dial: k.Dial, MetadataTTL: 500 * time.Millisecond}
	programs, err := o.installed(ctx, "kafka", "kafka-storage", "kafka-server")
	if err != nil {
		return k, err
	}
	ports, err := freePorts(ctx, 4*Size)
	if err != nil {
		return k, err
	}
	own, proxies, internal, controllers := ports[:Size], ports[Size:2*Size], ports[2*Size:3*Size], ports[3*Size:]
	var voters []string
	for i, address := range controllers {
		voters = append(voters, fmt.Sprintf("%d@%s", i+1, address))
	}
	for i := range Size {
		n, err := newNode(o.Dir, fmt.Sprint("kafka-", i+1), own[i], proxies[i])
		if err != nil {
			return k, err
		}
		k.all = append(k.all, n)
		n.URL = "kafka://" + n.Address
		properties, err := n.write("server.properties", append([]string{
			"process.roles=broker,controller", fmt.Sprint("node.id=", i+1),
			"controller.quorum.voters=" + strings.Join(voters, ","),
			"controller.listener.names=CONTROLLER", "inter.broker.listener.name=INTERNAL",
			"listener.security.protocol.map=CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
			fmt.Sprintf("listeners=CLIENT://%s,INTERNAL://%s,CONTROLLER://%s", own[i], internal[i], controllers[i]),
			fmt.Sprintf("advertised.listeners=CLIENT://%s,INTERNAL://%s", proxies[i], internal[i]),
			"log.dirs=" + n.dir + "/data", "auto.create.topics.enable=false", "auto.leader.rebalance.enable=false",
			"min.insync.replicas=2",
			// A killed or frozen broker is noticed soon.
			"broker.session.timeout.ms=2000", "broker.heartbeat.interval.ms=500",
			// A new leader waits for its followers for these times, which are not what is measured.
			"replica.fetch.wait.max.ms=50", "replica.fetch.backoff.ms=50",
		}, o.More...)...)
		if err != nil {
			return k, err
		}
		n.command = []string{
			"sh", "-c", `[ -d data ] || "$0" format -t MkU3OEVBNTcwNTJENDM2Qg -c "$2" && exec "$1" "$2"`, programs[0],
			programs[1],
			properties,
		}
		n.env = []string{"KAFKA_JVM_OPTIONS=-Xmx320m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
		n.ready = func(ctx context.Context) error { return n.awaitLog(ctx, "Kafka Server started") }
	}
	k.url = "kafka://" + k.proxies()
	k.client = &kafka.Client{Addr: kafka.TCP(proxies...), Transport: k.transport, Timeout: 20 * time.Second}
	return k, k.begin(ctx)
}

// Create implements [Cluster].
func (k *Kafka) Create(ctx context.Context, topic string, leader, replicas int) error {
	config := kafka.TopicConfig{Topic: topic, NumPartitions: -1, ReplicationFactor: -1}
	for partition := range KafkaPartitions {
		config.ReplicaAssignments = append(config.ReplicaAssignments,
			kafka.ReplicaAssignment{Partition: partition, Replicas: from(leader, replicas)})
	}
	if replicas == 1 {
		config.ConfigEntries = []kafka.ConfigEntry{{ConfigName: "min.insync.replicas", ConfigValue: "1"}}
	}
	err := until(ctx, "topic "+topic+" is created", func() (bool, error) {
		made, err := k.client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{config}})
		if err == nil {
			err = made.Errors[topic]
		}
		// While the controller moves, the client repeats requests that have been carried out.
		if err == nil || errors.Is(err, kafka.TopicAlreadyExists) {
			return true, nil
		}
		if _, refused := errors.AsType[kafka.Error](err); refused {
			return false, fmt.Errorf("create topic %s: %w", topic, err)
		}
		return false, nil // a connection of the client has ended with the node that it led to
	})
	if err != nil {
		return err
	}
	return until(ctx, "node "+fmt.Sprint(leader)+" leads "+topic, func() (bool, error) {
		return k.leads(ctx, topic, leader), nil
	})
}

// from returns this number of node ids, beginning with a node's.
func from(node, n int) (ids []int) {
	for i := range n {
		ids = append(ids, (node+i)%Size+1)
	}
	return ids
}

// leads reports whether a node leads all partitions.
func (k *Kafka) leads(ctx context.Context, topic string, node int) bool {
	partitions := k.partitions(ctx, topic)
	return len(partitions) > 0 && !slices.ContainsFunc(partitions,
		func(p kafka.Partition) bool { return p.Leader.ID != node+1 })
}

// partitions returns the partitions of a topic as the first node that answers reports them, nil if none answers.
func (k *Kafka) partitions(ctx context.Context, topic string) []kafka.Partition {
	for _, n := range k.up() {
		conn, err := kafka.DialContext(ctx, "tcp", n.Address)
		if err != nil {
			continue
		}
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		partitions, err := conn.ReadPartitions(topic)
		_ = conn.Close()
		if err == nil {
			return partitions
		}
	}
	return nil
}

// Move implements [Cluster].
func (k *Kafka) Move(ctx context.Context, topic string, to int) error {
	return until(ctx, fmt.Sprintf("node %d leads %s", to, topic), func() (bool, error) {
		request := &kafka.AlterPartitionReassignmentsRequest{Topic: topic, Timeout: 10 * time.Second}
		elect := &kafka.ElectLeadersRequest{Topic: topic, Timeout: 10 * time.Second}
		for _, p := range k.partitions(ctx, topic) {
			request.Assignments = append(request.Assignments,
				kafka.AlterPartitionReassignmentsRequestAssignment{PartitionID: p.ID, BrokerIDs: from(to, Size)})
			elect.Partitions = append(elect.Partitions, p.ID)
		}
		// A controller that has just moved closes connections, and an existing assignment is an error.
		_, _ = k.client.AlterPartitionReassignments(ctx, request)
		_, _ = k.client.ElectLeaders(ctx, elect)
		return k.leads(ctx, topic, to), nil
	})
}

// Try implements [Cluster].
func (k *Kafka) Try(ctx context.Context, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	transport := &kafka.Transport{Dial: k.Dial}
	defer transport.CloseIdleConnections()
	client := &kafka.Client{Transport: transport}
	for _, n := range k.up() {
		client.Addr = kafka.TCP(n.Address)
	}
	for partition := range KafkaPartitions {
		response, err := client.Produce(ctx, &kafka.ProduceRequest{
			Topic: topic, Partition: partition, RequiredAcks: kafka.RequireAll,
			Records: kafka.NewRecordReader(kafka.Record{Value: kafka.NewBytes(nil)}),
		})
		if err == nil {
			err = response.Error
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// InSync implements [Cluster].
func (k *Kafka) InSync(ctx context.Context, topics ...string) bool {
	for _, topic := range topics {
		partitions := k.partitions(ctx, topic)
		if len(partitions) == 0 || slices.ContainsFunc(partitions,
			func(p kafka.Partition) bool { return p.Leader.ID <= 0 || len(p.Isr) < len(p.Replicas) }) {
			return false
		}
	}
	return true
}

// Close implements [Cluster].
func (k *Kafka) Close() {
	k.transport.CloseIdleConnections()
	k.close()
}
