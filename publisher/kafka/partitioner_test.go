package kafka

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// partitionOf returns the partition to which the default partitioner sends a key.
func partitionOf(key []byte, partitions int) int { return partitionBy("murmur2", key, partitions) }

func partitionBy(name string, key []byte, partitions int) int {
	p, err := ParsePartitioner(name)
	if err != nil {
		panic(err)
	}
	indexes := make([]int, partitions)
	for i := range indexes {
		indexes[i] = i
	}
	return p.Balance(kafkago.Message{Key: key}, indexes...)
}

// The vectors of the other clients' own tests: UtilsTest.testMurmur2 of the Java client, 0048-partitioner.c of
// librdkafka, and for FNV-1a the authors' hashes with the arithmetic of Sarama's hashPartitioner. All keys have a hash,
// even the empty one.
func TestPartitioners(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string]map[string]uint32{
		"murmur2": {
			"21": ^uint32(973932308 - 1), "foobar": ^uint32(790332482 - 1), "a-little-bit-long-string": ^uint32(985981536 - 1),
			"a-little-bit-longer-string": ^uint32(1486304829 - 1), "abc": 479470107, "": 275646681,
		},
		"crc32": {"": 0, "23456": 0xb1b451d7, "hejsan": 0xd077037e},
		"fnv1a": {"": 0x811c9dc5, "a": 0xe40c292c, "foobar": 0xbf9cf968},
	} {
		for key, hash := range keys {
			for _, partitions := range []int{1, 3, 8, 17, 1000} {
				want := int(hash) % partitions
				switch name {
				case "murmur2":
					want = int(hash&0x7fffffff) % partitions
				case "fnv1a":
					want = max(int(int32(hash))%partitions, -(int(int32(hash)) % partitions))
				}
				if got := partitionBy(name, []byte(key), partitions); got != want {
					t.Errorf("%s: %q goes to partition %d of %d, want %d", name, key, got, partitions, want)
				}
			}
		}
	}
	if _, err := ParsePartitioner("fnv"); err == nil {
		t.Error("fnv is taken for a partitioner")
	}
}

func TestPartitionerSetting(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0, 0, 0, 0, 0)
	p := f.open(func(c *Config) { c.Partitioner, _ = ParsePartitioner("crc32") })
	var messages []publisher.Message
	want := make([][]string, 5)
	for i := range 50 {
		key := fmt.Appendf(nil, "key-%d", i)
		messages = append(messages, publisher.Message{ID: fmt.Sprint(i), Topic: "t", Key: key})
		to := partitionBy("crc32", key, 5)
		want[to] = append(want[to], fmt.Sprint(i))
	}
	for _, class := range publish(t, p, messages) {
		if class != ok {
			t.Fatalf("the answer is %v", class)
		}
	}
	for i := range want {
		expect(t, fmt.Sprint("partition ", i), f.log("t", i), want[i]...)
	}
}

// Rows choose their partition by a header. A key that changes its partition keeps its order.
func TestPartitionByHeader(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0, 0, 0)
	p := f.open(func(c *Config) { c.PartitionHeader = "partition" })
	row := func(id, key, partition string) publisher.Message {
		m := publisher.Message{ID: id, Topic: "t", Headers: []publisher.Header{{Name: "Partition", Value: partition}}}
		if key != "" {
			m.Key = []byte(key)
		}
		return m
	}
	messages := []publisher.Message{
		row("a1", "a", "2"), row("a2", "a", "0"), row("a3", "a", "2"), row("b1", "", "1"),
		row("c1", "c", "-1"), row("c2", "c", "1"), row("d1", "d", "one"), row("e1", "", "99999999999999"), row("f1", "", ""),
	}
	expect(t, "answers", publish(t, p, messages), ok, ok, ok, ok, never, after, never, never, never)
	expect(t, "partition 0", f.log("t", 0), "a2")
	expect(t, "partition 1", f.log("t", 1), "b1")
	expect(t, "partition 2", f.log("t", 2), "a1", "a3")
	plain := rows("t", 1, 3, "plain")
	expect(t, "without the header", publish(t, p, plain), ok)
	expect(t, "partition 1", f.log("t", 1), "b1", "plain")
}

// A partition that the topic does not have is refused. The topic may have grown since it was asked for, and is asked
// for again, long before the row's last attempt.
func TestPartitionBeyondTheTopic(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0, 0)
	p := f.open(func(c *Config) { c.PartitionHeader = "partition" })
	beyond := []publisher.Message{{ID: "x", Topic: "t", Headers: []publisher.Header{{Name: "partition", Value: "2"}}}}
	expect(t, "before the growth", publish(t, p, beyond), publisher.Refused)
	f.topic("t", 0) // a third partition
	if _, fresh := p.cluster.cached("t", time.Now().Add(troubleTTL)); fresh {
		t.Error("the topic is not asked for again")
	}
	for publish(t, p, beyond)[0] != ok && t.Context().Err() == nil {
	}
	expect(t, "log", f.log("t", 2), "x")
	if _, fresh := p.cluster.cached("t", time.Now().Add(troubleTTL)); !fresh {
		t.Error("the topic is asked for in each call")
	}
}

// A topic that gets more partitions while the publisher runs is noticed and logged. What was sent without an answer
// before stays in its partition. After it, the key goes on in its new partition.
func TestTopicGrows(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0)
	var log bytes.Buffer
	p := f.open(func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	messages := rows("t", 2, 3, "a", "b")
	messages[1].Key = messages[0].Key
	f.set(func() { f.bend = times(2, fault{drop: true, append: true}) })
	expect(t, "answers get lost", publish(t, p, messages[:1]), unsure)
	if strings.Contains(log.String(), "another number") {
		t.Errorf("logged without growth: %s", log.String())
	}
	f.topic("t", 0, 0)
	if err := p.cluster.refreshed(t, []string{"t"}); err != nil {
		t.Fatal(err)
	}
	expect(t, "after the growth", publish(t, p, messages), ok, ok)
	expect(t, "partition 0", f.log("t", 0), "a")
	expect(t, "partition 2", f.log("t", 2), "b")
	if n := strings.Count(log.String(), "another number of partitions"); n != 1 ||
		!strings.Contains(log.String(), "before=1 partitions=3") {
		t.Errorf("%d lines of the growth:\n%s", n, log.String())
	}
}
