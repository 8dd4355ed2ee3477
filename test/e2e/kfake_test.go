package e2e

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/kafka"
)

const fakeTopic = "orders"

// newFakeKafka starts a cluster of three simulated brokers by a third party, with franz-go's rules of idempotence, and
// a publisher for it.
func newFakeKafka(t *testing.T) (*kfake.Cluster, *kafka.Publisher) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(kafkaPartitions, fakeTopic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	p := kafka.New(kafka.Config{
		Brokers: cluster.ListenAddrs()[:1], ClientID: "test",
		Logger: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(func() { _ = p.Close() })
	return cluster, p
}

// publishAll publishes until every message is accepted, as the relay would: messages that were not accepted are
// published again, in their order. It returns the number of calls.
func publishAll(t *testing.T, p *kafka.Publisher, messages []publisher.Message) (calls int) {
	t.Helper()
	for began := time.Now(); len(messages) > 0; calls++ {
		if time.Since(began) > patience {
			t.Errorf("%d messages are left after %d calls", len(messages), calls)
			return calls
		}
		var left []publisher.Message
		for i, err := range p.Publish(t.Context(), messages) {
			switch publisher.ClassOf(err) {
			case publisher.Accepted:
				continue
			case publisher.Permanent, publisher.Refused:
				t.Errorf("message %s: %v", messages[i].ID, err)
			default:
			}
			left = append(left, messages[i])
		}
		messages = left
	}
	return calls
}

// TestKafkaLeaderMoves: a partition whose leader has moved accepts its messages in the very next call.
func TestKafkaLeaderMoves(t *testing.T) {
	t.Parallel()
	cluster, p := newFakeKafka(t)
	batch := func(round int) []publisher.Message {
		var messages []publisher.Message
		for i := range 60 {
			messages = append(messages, publisher.Message{
				ID: fmt.Sprint(round, "-", i), Topic: fakeTopic, Key: fmt.Appendf(nil, "k%d", i),
				Payload: []byte("{}"),
			})
		}
		return messages
	}
	publishAll(t, p, batch(0))
	for round := 1; round <= 10; round++ {
		cluster.ShufflePartitionLeaders()
		began := time.Now()
		if calls := publishAll(t, p, batch(round)); calls > 1 {
			t.Errorf("round %d took %d calls", round, calls)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("round %d took %v", round, took)
		}
	}
	expectOnce(t, cluster, 11*60)
}

// TestKafkaFaults publishes from several workers while leaders move, answers are refused or lost after the append, and
// connections are dropped. Every message is in the log once, and each key's messages are in order.
func TestKafkaFaults(t *testing.T) {
	t.Parallel()
	cluster, p := newFakeKafka(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const workers, batches, size, keys = 4, 40, 100, 12
	// There are as many faults as batches: a fault waits for a request that it can affect, and with some kinds of faults a
	// partition pauses.
	var faults sync.Mutex
	var publishing sync.WaitGroup
	for w := range workers {
		publishing.Go(func() {
			for b := range batches {
				messages := make([]publisher.Message, size)
				for i := range messages {
					n := b*size + i
					messages[i] = publisher.Message{
						ID: fmt.Sprintf("%d-%06d", w, n), Topic: fakeTopic, Key: fmt.Appendf(nil, "%d-%d", w, n%keys),
						Payload: []byte("{}"),
					}
				}
				faults.Lock()
				fault(cluster, random)
				faults.Unlock()
				publishAll(t, p, messages)
			}
		})
	}
	publishing.Wait()
	expectOnce(t, cluster, workers*batches*size)
}

// fault causes one fault.
func fault(cluster *kfake.Cluster, random *rand.Rand) {
	produce := []kmsg.Key{kmsg.Produce}
	switch random.IntN(6) {
	case 0:
		cluster.ShufflePartitionLeaders()
	case 1:
		// This fault drops the connection without an answer.
		cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
			return nil, errors.New("cut"), true
		})
	case 2:
		cluster.Fault(kfake.Fault{Keys: produce, Err: kerr.RequestTimedOut})
	case 3:
		cluster.Fault(kfake.Fault{Keys: produce, Err: kerr.NotEnoughReplicasAfterAppend})
	case 4:
		cluster.Fault(kfake.Fault{
			Keys: produce, Err: kerr.NotLeaderForPartition,
			Partitions: []int32{random.Int32N(kafkaPartitions)},
		})
	case 5:
		cluster.Fault(kfake.Fault{Keys: produce, Err: kerr.NotEnoughReplicas})
	}
}

// expectOnce reads the topic with franz-go and expects n messages, none twice, each key's in the order of ids.
func expectOnce(t *testing.T, cluster *kfake.Cluster, n int) {
	t.Helper()
	records := newKafka(t, "kafka://"+strings.Join(cluster.ListenAddrs(), ",")).consume(t, fakeTopic, n)
	if len(records) != n {
		t.Errorf("%d records, want %d", len(records), n)
	}
	ids, last := map[string]bool{}, map[string]string{}
	for _, r := range records {
		at := slices.IndexFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == publisher.HeaderMessageID })
		id, key := string(r.Headers[at].Value), string(r.Key)
		if ids[id] {
			t.Errorf("message %s is there twice", id)
		}
		ids[id] = true
		if cmp.Compare(id, last[key]) < 0 && len(id) == len(last[key]) {
			t.Errorf("message %s comes after %s", id, last[key])
		}
		last[key] = id
	}
}
