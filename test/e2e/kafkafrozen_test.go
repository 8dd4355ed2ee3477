package e2e

import (
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
)

// TestFrozenKafkaBroker freezes one of three brokers for so short a time that the others do not replace it: its
// connections stay open, and nothing comes from it. Rows whose leader and replicas are healthy go on, also beside
// partitions of the same leader that have a replica on the frozen broker; afterwards all rows arrive once and in order.
func TestFrozenKafkaBroker(t *testing.T) {
	t.Parallel()
	c := newKafkaCluster(t, "broker.session.timeout.ms=120000")
	topic := uniqueTopic()
	replicas := [kafkaPartitions][]int{{1, 2}, {2, 1}, {1, 3}, {2, 3}, {3, 1}, {3, 2}}
	var assignments []kafka.ReplicaAssignment
	for partition, nodes := range replicas {
		assignments = append(assignments, kafka.ReplicaAssignment{Partition: partition, Replicas: nodes})
	}
	made, err := c.client.CreateTopics(t.Context(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{
		{Topic: topic, NumPartitions: -1, ReplicationFactor: -1, ReplicaAssignments: assignments}}})
	if err == nil {
		err = made.Errors[topic]
	}
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the partitions have leaders", func() bool {
		_, err := c.Count(t.Context(), topic)
		return err == nil
	})
	f := startTraffic(t, c, topic)
	f.add(f.keys)
	f.awaitDrained()
	var healthy []string
	for _, d := range c.received(t, topic) {
		if d.partition < 2 {
			healthy = append(healthy, d.key)
		}
	}
	f.backlog(2000)
	c.nodes[2].freeze()
	began := time.Now()
	const rounds = 20
	for range rounds {
		f.add(f.keys)
		await(t, "rows of healthy partitions go on", func() bool {
			return f.count("key = any($1) and relayed_at is null", healthy) == 0
		})
	}
	took := time.Since(began).Round(time.Millisecond)
	t.Logf("%d rounds of %d rows took %v beside the frozen broker", rounds, f.keys, took)
	if took > patience {
		t.Error("that is too long")
	}
	if f.count(isPending) == 0 {
		t.Error("the frozen broker has gone on")
	}
	c.nodes[2].thaw()
	f.awaitDrained()
	check(t, f.table, newKafka(t, c.address).received(t, topic))
	f.checkUnspent(everyRow)
	f.relay.stop()
}
