package publishertest

import (
	"fmt"
	"hash/fnv"
	"strconv"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// Partition gives the topic the given number of partitions, permanently. A message goes to the partition of its key.
// Without a key, it goes to any partition that is up.
func (b *Broker) Partition(topic string, count int) {
	b.change(func() { b.partitions[topic] = count })
}

// PartitionOf returns the partition of a key in a topic that was given partitions.
func (b *Broker) PartitionOf(topic string, key []byte) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return partitionOf(key, b.partitions[topic])
}

// DownPartition makes one partition of the topic Unavailable. Messages without a key are Unavailable only if all
// partitions of the topic are down.
func (b *Broker) DownPartition(topic string, partition int) {
	b.change(func() {
		if partition >= b.partitions[topic] {
			panic(fmt.Sprintf("publishertest: the topic %q has %d partitions and no partition %d", topic,
				b.partitions[topic], partition))
		}
		b.leaderless[part{topic, partition}] = true
	})
}

// UpPartition ends DownPartition.
func (b *Broker) UpPartition(topic string, partition int) {
	b.change(func() { delete(b.leaderless, part{topic, partition}) })
}

// A part is one partition of a topic.
type part struct {
	topic     string
	partition int
}

// leader returns the answer for a message whose partition is down. b.mu is held.
func (b *Broker) leader(m *publisher.Message) error {
	count := b.partitions[m.Topic]
	if count == 0 || len(b.leaderless) == 0 {
		return nil
	}
	if m.Key == nil {
		for n := range count {
			if !b.leaderless[part{m.Topic, n}] {
				return nil
			}
		}
		return publisher.WithFate(
			publisher.UnavailableError(publisher.ScopeTopic, "no leader", "no partition of topic %q has a leader",
				m.Topic),
			topicFate(m.Topic))
	}
	n := partitionOf(m.Key, count)
	if !b.leaderless[part{m.Topic, n}] {
		return nil
	}
	return publisher.WithFate(
		publisher.UnavailableError(publisher.ScopeMessage, "no leader", "topic %q partition %d has no leader",
			m.Topic, n),
		publisher.Fate{Kind: publisher.FatePartition, Name: m.Topic + "/" + strconv.Itoa(n)})
}

func partitionOf(key []byte, count int) int {
	hash := fnv.New32a()
	_, _ = hash.Write(key)
	return int(hash.Sum32() % uint32(max(count, 1)))
}
