package kafka

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// Random faults with several callers: in the end every message is in the log once, and each key is in order over all
// partitions that it uses. The seed is printed. Setting it here repeats the schedule of faults, but not that of
// goroutines.
func TestRandomFaults(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	f := newFakeCluster(t, 3)
	f.topic("one", 0, 1, 2, 0)
	f.topic("two", 2, 1)
	late := map[string]bool{} // batches that may be appended after they were sent again
	f.bend = func(b *fakeBatch) fault { return randomFault(random, f, b, late) }
	p := f.open()

	const callers, keys, rounds = 4, 5, 25
	var running sync.WaitGroup
	for caller := range callers {
		choose := rand.New(rand.NewPCG(seed, uint64(caller)+1))
		var all []publisher.Message
		for i := range keys * rounds {
			m := publisher.Message{
				ID:    fmt.Sprintf("%d-%d-%d", caller, i%keys, i/keys),
				Topic: []string{"one", "two"}[choose.IntN(2)],
			}
			if m.Key = fmt.Appendf(nil, "%d-%d", caller, i%keys); i%keys == 0 {
				m.Key = nil
			}
			all = append(all, m)
		}
		running.Go(func() { persistAll(t, p, all, choose) })
	}
	running.Wait()

	places := map[string]int{}
	order := map[string][]string{} // numbers in one partition, by key
	for topic, partitions := range f.topics {
		for i := range partitions {
			for _, id := range f.log(topic, i) {
				places[id]++
				var caller, key, number int
				if _, err := fmt.Sscanf(id, "%d-%d-%d", &caller, &key, &number); err != nil {
					t.Fatal(err)
				}
				if key != 0 {
					k := fmt.Sprint(topic, i, " key ", caller, "-", key)
					order[k] = append(order[k], fmt.Sprintf("%06d", number))
				}
			}
		}
	}
	for id, n := range places {
		if n != 1 {
			t.Errorf("message %s is in the log %d times", id, n)
		}
	}
	if len(places) != callers*keys*rounds {
		t.Errorf("%d messages are in the log, want %d", len(places), callers*keys*rounds)
	}
	for k, numbers := range order {
		if !slices.IsSorted(numbers) {
			t.Errorf("%s: the order is %v", k, numbers)
		}
	}
}

// randomFault returns a fault that does not break the broker's rules. f.mu is held.
func randomFault(random *rand.Rand, f *fakeCluster, b *fakeBatch, late map[string]bool) fault {
	same := fmt.Sprint(b.topic, b.partition, b.producer, b.epoch, b.sequence)
	switch random.IntN(31) {
	case 0:
		return fault{drop: true}
	case 1:
		return fault{drop: true, append: true}
	case 2:
		return fault{code: kafkago.RequestTimedOut, append: true}
	case 3:
		return fault{code: kafkago.NotEnoughReplicasAfterAppend}
	case 4:
		return fault{code: kafkago.NotEnoughReplicas}
	case 5:
		p := f.topics[b.topic][b.partition]
		p.leader = random.Int32N(3)
		return fault{}
	case 6:
		// No broker that has appended a batch, or will append it, answers that it is too large when it comes again.
		if len(b.ids) > 1 && !late[same] && !f.topics[b.topic][b.partition].producers[b.producer].has(b) {
			return fault{code: kafkago.MessageSizeTooLarge}
		}
		return fault{}
	case 7:
		return fault{code: kafkago.NotLeaderForPartition, append: true}
	case 8:
		return fault{code: kafkago.KafkaStorageError, append: true}
	case 9:
		return fault{code: kafkago.NotLeaderForPartition}
	case 10:
		for c := range f.brokers[b.broker].conns {
			_ = c.Close()
		}
		return fault{append: true}
	case 11:
		late[same] = true
		return fault{until: closedAfter(time.Duration(random.IntN(50)) * time.Millisecond)}
	case 12:
		// Rarely so late that the broker becomes a suspect.
		late[same] = true
		return fault{until: closedAfter(time.Duration(random.IntN(40)/39) * patience * 5 / 4)}
	default:
		return fault{}
	}
}

// closedAfter returns a channel that is closed after a time.
func closedAfter(d time.Duration) chan struct{} {
	c := make(chan struct{})
	time.AfterFunc(d, func() { close(c) })
	return c
}

// persistAll publishes in calls of a few messages until all are accepted. Some calls end early. No message is published
// before an earlier one of its key has been accepted.
func persistAll(t *testing.T, p *Publisher, all []publisher.Message, choose *rand.Rand) {
	deadline := time.Now().Add(60 * time.Second)
	for len(all) > 0 {
		if time.Now().After(deadline) {
			t.Errorf("%d messages are still not accepted", len(all))
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if choose.IntN(10) == 0 {
			cancel()
			ctx, cancel = context.WithTimeout(t.Context(), time.Duration(choose.IntN(2000))*time.Microsecond)
		}
		n := min(len(all), 1+choose.IntN(30))
		answers := p.Publish(ctx, all[:n])
		cancel()
		var left []publisher.Message
		for i, err := range answers {
			switch publisher.ClassOf(err) {
			case publisher.Accepted:
			case publisher.NotAttempted, publisher.Unavailable, publisher.Ambiguous:
				left = append(left, all[i])
			default:
				t.Errorf("message %s: %v", all[i].ID, err)
				return
			}
		}
		all = append(left, all[n:]...)
	}
}
