package kafka

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// Answers are lost on the way back from the real broker. All messages that are published again are in the log once.
func TestLostAnswersMakeNoDuplicate(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	topic := h.topic(t, 6)
	network := publishertest.NewNetwork()
	p := h.open(t, network)
	messages := benchMessages(topic)
	messages[7].Key, messages[8].Key = nil, nil
	expectAccepted(t, p, messages[:100])
	for round := range 5 {
		part := messages[100+round*100 : 200+round*100]
		network.Mute()
		ctx, cancel := context.WithCancel(t.Context())
		answers := make(chan []error, 1)
		go func() { answers <- p.Publish(ctx, part) }()
		network.AwaitWrite(t, 40_000)
		start := time.Now()
		if round%2 == 0 {
			cancel()
		} else {
			network.Cut()
		}
		got := <-answers
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("round %d: the call ended %v too late", round, took)
		}
		for i, err := range got {
			if publisher.ClassOf(err) != publisher.Ambiguous {
				t.Fatalf("round %d, message %d: %v", round, i, err)
			}
		}
		cancel()
		network.Restore()
		persist(t, p, part)
	}
	received := h.received(t, topic, 600)
	if len(received) != 600 {
		t.Errorf("the topic holds %d messages of 600", len(received))
	}
}

func expectAccepted(t *testing.T, p *Publisher, messages []publisher.Message) {
	t.Helper()
	for i, err := range answersOf(t, p, messages) {
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
}

// persist publishes until all messages are accepted.
func persist(t *testing.T, p *Publisher, messages []publisher.Message) {
	t.Helper()
	eventually(t, func() bool {
		answers := answersOf(t, p, messages)
		var left []publisher.Message
		for i, err := range answers {
			if err != nil {
				left = append(left, messages[i])
			}
		}
		messages = left
		return len(left) == 0
	})
}

// The sequence wraps at 2^31, within a batch and between two batches, without a new epoch.
func TestSequenceWraps(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	p := h.open(t, publishertest.NewNetwork())
	for _, start := range []int32{maxSequence - 4, maxSequence - 9, maxSequence - 8} {
		topic := h.topic(t, 1)
		messages := benchMessages(topic)[:40]
		if err := p.cluster.refreshed(t, []string{topic}); err != nil {
			t.Fatal(err)
		}
		partition := p.cluster.topics[topic].partitions[0]
		partition.sequence = start
		for part := range slices.Chunk(messages, 10) {
			expectAccepted(t, p, part)
		}
		if want := int32((int64(start) + 40) % (1 << 31)); partition.sequence != want || partition.producer.epoch != 0 {
			t.Errorf("from %d: sequence %d, epoch %d, want %d and 0", start, partition.sequence, partition.producer.epoch, want)
		}
		if n := len(h.received(t, topic, 40)); n != 40 {
			t.Errorf("the topic holds %d messages of 40", n)
		}
	}
}

// The real broker accepts an epoch that the client has chosen, and appends the batch that it had refused.
func TestNewEpochOnBroker(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	topic := h.topic(t, 1)
	p := h.open(t, publishertest.NewNetwork())
	messages := benchMessages(topic)[:30]
	expectAccepted(t, p, messages[:10])
	partition := p.cluster.topics[topic].partitions[0]
	partition.sequence += 5 // a gap
	expectAccepted(t, p, messages[10:20])
	expectAccepted(t, p, messages[20:])
	if partition.producer.epoch != 1 || partition.sequence != 20 {
		t.Errorf("epoch %d, sequence %d", partition.producer.epoch, partition.sequence)
	}
	if n := len(h.received(t, topic, 30)); n != 30 {
		t.Errorf("the topic holds %d messages of 30", n)
	}
}

// If a topic's limit is below the default, its batches are smaller. Only a record that is too large alone fails.
func TestTopicWithSmallLimit(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	topic := h.topic(t, 1, kafkago.ConfigEntry{ConfigName: "max.message.bytes", ConfigValue: "20000"})
	p := h.open(t, publishertest.NewNetwork())
	messages := benchMessages(topic)
	for _, i := range []int{0, 500, 999} {
		messages[i].Payload = make([]byte, 30_000)
	}
	for i, err := range answersOf(t, p, messages) {
		want := publisher.Accepted
		if i%999 == 0 || i == 500 {
			want = publisher.Permanent
		}
		if publisher.ClassOf(err) != want {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	if n := len(h.received(t, topic, 997)); n != 997 {
		t.Errorf("the topic holds %d messages of 997", n)
	}
	if epoch := p.cluster.topics[topic].partitions[0].producer.epoch; epoch != 0 {
		t.Errorf("refused batches cost %d epochs", epoch)
	}
}

// One bad row is among 300 good ones, with a separate call for each kind of bad row. Only the bad row is refused or
// held. The others are in the log once, without delay.
func TestOneBadRowAmongMany(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	p := h.open(t, publishertest.NewNetwork())
	topic := h.topic(t, 6)
	for name, test := range map[string]struct {
		bad  publisher.Message
		want publisher.Class
	}{
		"2 MiB": {
			publisher.Message{ID: "bad", Topic: topic, Key: []byte("bad"), Payload: make([]byte, 2<<20)},
			publisher.Permanent,
		},
		"2 MiB, no key": {publisher.Message{ID: "bad", Topic: topic, Payload: make([]byte, 2<<20)}, publisher.Permanent},
		"unknown topic": {publisher.Message{ID: "bad", Topic: h.unknown(), Key: []byte("bad")}, publisher.Topology},
		"illegal topic": {publisher.Message{ID: "bad", Topic: "a b", Key: []byte("bad")}, publisher.Permanent},
		"reserved header": {
			publisher.Message{ID: "bad", Topic: topic, Headers: []publisher.Header{{Name: "message-id"}}},
			publisher.Permanent,
		},
	} {
		messages := slices.Insert(benchMessages(topic)[:300], 150, test.bad)
		begun := time.Now()
		for i, err := range answersOf(t, p, messages) {
			if want := i == 150; want != (err != nil) || want && publisher.ClassOf(err) != test.want {
				t.Errorf("%s: message %d: %v", name, i, err)
			}
		}
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("%s: the call took %v", name, took)
		}
	}
	seen := map[string]int{}
	for _, m := range h.received(t, topic, 1500) {
		if seen[m.ID]++; seen[m.ID] > 1 || m.ID == "bad" {
			t.Errorf("message %s is there %d times", m.ID, seen[m.ID])
		}
	}
	if len(seen) != 1500 {
		t.Errorf("%d of 1500 messages are there", len(seen))
	}
}

// Records far above the size of a batch go in batches of their own.
func TestLargeCall(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	topic := h.topic(t, 3)
	p := h.open(t, publishertest.NewNetwork())
	messages := make([]publisher.Message, 60)
	payload := make([]byte, 400_000)
	rand.Read(payload)
	for i := range messages {
		messages[i] = publisher.Message{ID: rand.Text(), Topic: topic, Key: fmt.Appendf(nil, "key-%d", i), Payload: payload}
	}
	expectAccepted(t, p, messages)
	if n := len(h.received(t, topic, 60)); n != 60 {
		t.Errorf("the topic holds %d messages of 60", n)
	}
}

// A topic that is deleted and created again is used again, also with a batch that was kept for it.
func TestTopicMadeAgain(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	name := h.unknown()
	h.create(t, name, 2)
	h.awaitLeaders(t, name, 2)
	network := publishertest.NewNetwork()
	p := h.open(t, network)
	messages := benchMessages(name)[:60]
	expectAccepted(t, p, messages[:20])
	network.Mute()
	ctx, cancel := context.WithCancel(t.Context())
	answers := make(chan []error, 1)
	go func() { answers <- p.Publish(ctx, messages[20:40]) }()
	network.AwaitWrite(t, 10_000)
	cancel()
	<-answers
	h.delete(t, name)
	eventually(t, func() bool { // until then the kept batch could still be accepted, and go with the topic
		_, err := h.ends(t.Context(), name, 2)
		return err != nil
	})
	network.Restore()
	eventually(t, func() bool {
		return publisher.ClassOf(answersOf(t, p, messages[40:41])[0]) == publisher.Topology
	})
	eventually(t, func() bool {
		response, err := h.client.CreateTopics(t.Context(),
			&kafkago.CreateTopicsRequest{Topics: []kafkago.TopicConfig{{Topic: name, NumPartitions: 2, ReplicationFactor: 1}}})
		return err == nil && response.Errors[name] == nil
	})
	persist(t, p, messages[20:])
	seen := map[string]int{}
	h.client = h.newClient(t) // the previous client may know the previous topic
	for _, m := range h.received(t, name, 40) {
		seen[m.ID]++
	}
	for i, m := range messages[20:] {
		if seen[m.ID] != 1 {
			t.Errorf("message %d is there %d times", 20+i, seen[m.ID])
		}
	}
}

func TestPingWhileAway(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	network := publishertest.NewNetwork()
	p := h.open(t, network)
	if err := p.Ping(t.Context()); err != nil {
		t.Fatalf("ping: %v", err)
	}
	network.Cut()
	if err := p.Ping(t.Context()); err == nil {
		t.Error("ping succeeds without a network")
	}
	network.Restore()
	if err := p.Ping(t.Context()); err != nil {
		t.Errorf("ping after the outage, within the backoff: %v", err)
	}
	network.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	if err := p.Ping(ctx); err == nil || time.Since(start) > 10*time.Second {
		t.Errorf("ping into a frozen network: %v after %v", err, time.Since(start))
	}
}
