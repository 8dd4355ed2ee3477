package kafka

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"log/slog"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// The vectors of the Java client's own test (UtilsTest.testMurmur2), and an empty key.
func TestMurmur2(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]int32{
		"21":                         -973932308,
		"foobar":                     -790332482,
		"a-little-bit-long-string":   -985981536,
		"a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
		"":    275646681,
	} {
		if got := murmur2([]byte(key)); got != uint32(want)&0x7fffffff {
			t.Errorf("murmur2(%q) is %d, want %d without its sign", key, got, want)
		}
	}
}

// kafka-go's balancer is the second reference, for keys of every length modulo four.
func TestPartitionOf(t *testing.T) {
	t.Parallel()
	partitions := []int{0, 1, 2, 3, 4, 5, 6}
	for i := range 1000 {
		key := fmt.Appendf(nil, "%0*d", i%40+1, i*i)
		want := kafkago.Murmur2Balancer{}.Balance(kafkago.Message{Key: key}, partitions...)
		if got := partitionOf(murmur2(key), len(partitions)); int(got) != want {
			t.Fatalf("key %s goes to partition %d, want %d", key, got, want)
		}
	}
}

// The vectors of librdkafka's own test (0048-partitioner.c).
func TestCRC32(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]uint32{
		"":      0,
		"23456": 0xb1b451d7,
		"this is another string with more length to it perhaps": 0xb0150df7,
		"hejsan": 0xd077037e,
	} {
		if got := checksum([]byte(key)); got != want || partitionOf(got, 17) != int32(want%17) {
			t.Errorf("CRC32(%q) is %#x, want %#x", key, got, want)
		}
	}
	for name, want := range map[string]uint32{"murmur2": murmur2([]byte("x")), "crc32": checksum([]byte("x")), "fnv1a": fnv1a([]byte("x"))} {
		if p, err := ParsePartitioner(name); err != nil || p([]byte("x")) != want {
			t.Errorf("%s is another partitioner: %v", name, err)
		}
	}
	if _, err := ParsePartitioner("fnv"); err == nil {
		t.Error("fnv is taken for a partitioner")
	}
}

// The reference is Sarama's arithmetic (its partitioner.go, hashPartitioner), on the standard library's hash as in
// Sarama. kafka-go's balancer of that kind is another reference. The test covers both signs, numbers of partitions that
// are powers of two and others, and the vectors of the hash's authors.
func TestFNV1a(t *testing.T) {
	t.Parallel()
	for key, hash := range map[string]uint32{"": 0x811c9dc5, "a": 0xe40c292c, "foobar": 0xbf9cf968} {
		if got := fnv1a([]byte(key)); got != -hash { // all have the sign
			t.Errorf("FNV1a(%q) is %#x, want %#x", key, got, -hash)
		}
	}
	signs := map[bool]int{}
	for _, count := range []int{1, 2, 3, 7, 12, 64, 100, 1000} {
		partitions := make([]int, count)
		for i := range partitions {
			partitions[i] = i
		}
		for i := range 2000 {
			key := fmt.Appendf(nil, "ключ-%d", i*i)
			hasher := fnv.New32a()
			_, _ = hasher.Write(key)
			signs[int32(hasher.Sum32()) < 0]++
			sarama := int32(hasher.Sum32()) % int32(count)
			if sarama < 0 {
				sarama = -sarama
			}
			kafkaGo := (&kafkago.Hash{}).Balance(kafkago.Message{Key: key}, partitions...)
			if got := partitionOf(fnv1a(key), count); got != sarama || int(got) != kafkaGo {
				t.Fatalf("key %s of %d partitions goes to %d, to %d with Sarama, to %d with kafka-go", key, count, got, sarama, kafkaGo)
			}
		}
	}
	if signs[true] == 0 || signs[false] == 0 {
		t.Error("the keys have hashes of one sign only")
	}
}

func TestPartitionerSetting(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0, 0, 0, 0, 0)
	p := f.open(func(c *Config) { c.Partitioner = checksum })
	var messages []publisher.Message
	want := make([][]string, 5)
	for i := range 50 {
		key := fmt.Appendf(nil, "key-%d", i)
		messages = append(messages, publisher.Message{ID: fmt.Sprint(i), Topic: "t", Key: key})
		want[checksum(key)%5] = append(want[checksum(key)%5], fmt.Sprint(i))
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

// A partition that the topic does not have is refused only while the metadata is recent. Otherwise the topic may have
// grown in the meantime.
func TestPartitionBeyondTheTopic(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0, 0)
	p := f.open(func(c *Config) { c.PartitionHeader = "partition" })
	beyond := []publisher.Message{{ID: "x", Topic: "t", Headers: []publisher.Header{{Name: "partition", Value: "2"}}}}
	expect(t, "young metadata", publish(t, p, beyond), publisher.Refused)
	known, _ := p.cluster.cached("t", time.Now())
	aged := *known
	aged.learned = aged.learned.Add(-doubtTTL)
	p.cluster.topics["t"] = &aged
	f.topic("t", 0) // a third partition
	expect(t, "old metadata", publish(t, p, beyond), down)
	expect(t, "asked again", publish(t, p, beyond), ok)
	expect(t, "log", f.log("t", 2), "x")
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
	if _, err := p.cluster.refresh(t.Context(), []string{"t"}); err != nil {
		t.Fatal(err)
	}
	expect(t, "after the growth", publish(t, p, messages), ok, ok)
	expect(t, "partition 0", f.log("t", 0), "a")
	expect(t, "partition 2", f.log("t", 2), "b")
	if n := strings.Count(log.String(), "another number of partitions"); n != 1 || !strings.Contains(log.String(), "before=1 partitions=3") {
		t.Errorf("%d lines of the growth:\n%s", n, log.String())
	}
}
