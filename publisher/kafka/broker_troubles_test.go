package kafka

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// brokerTroubles are the troubles that one broker of a cluster can have. Each function begins one and returns a
// function that ends it.
var brokerTroubles = map[string]func(s *spread, h *holes) (end func()){
	"silent": func(s *spread, _ *holes) func() {
		_, over := silentBrokers(s.fakeCluster, s.first)
		return func() { s.set(func() { s.bend = nil }); close(over) }
	},
	"refuses to be dialled": func(s *spread, _ *holes) func() {
		s.setDown(s.first, true)
		return func() { s.setDown(s.first, false) }
	},
	"blackholed": func(s *spread, h *holes) func() {
		h.set(func() { h.addresses = []string{s.brokers[s.first].listener.Addr().String()} })
		s.setDown(s.first, true) // ends the existing connections
		s.setDown(s.first, false)
		return func() { h.set(func() { h.addresses = nil; close(h.end) }) }
	},
	"answers late": func(s *spread, _ *holes) func() {
		s.set(func() {
			s.bend = func(b *fakeBatch) fault {
				if b.broker < s.first {
					return fault{}
				}
				late := make(chan struct{})
				time.AfterFunc(patience*5/4, func() { close(late) })
				return fault{until: late}
			}
		})
		return func() { s.set(func() { s.bend = nil }) }
	},
	"throttles": func(s *spread, _ *holes) func() {
		s.set(func() { s.throttle, s.throttles = 2000, []int32{s.first} })
		return func() { s.set(func() { s.throttle = 0 }) }
	},
}

// While the trouble lasts, a hundred concurrent calls get the answers of the healthy brokers. This holds for calls that
// go only to healthy brokers, and for calls that also go to the broker in trouble. Nothing is in the log twice, and
// after the trouble the rest follows.
func TestHundredCallsBesideOneBrokerInTrouble(t *testing.T) {
	t.Parallel()
	for name, begin := range brokerTroubles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &spread{fakeCluster: newFakeCluster(t, 3), troubled: 1, first: 2, leaders: []int32{0, 1, 2, 0, 1, 2}}
			s.topic("t", s.leaders...)
			h := &holes{end: make(chan struct{}), deaf: true}
			p := s.open(func(c *Config) { c.Dial = h.dial })
			expectNone(t, answered(t, p, s.messages()))
			end := begin(s, h)
			var calls [100][]publisher.Message
			for i := range calls {
				if calls[i] = s.messages(); i%2 == 0 {
					calls[i] = slices.DeleteFunc(calls[i], func(m publisher.Message) bool { return s.leaderOf(&m) == s.first })
				}
			}
			var running sync.WaitGroup
			var mu sync.Mutex
			var left []publisher.Message
			for _, messages := range calls {
				running.Go(func() {
					for i, err := range p.Publish(context.Background(), messages) {
						if err == nil {
							continue
						}
						if fate, _ := publisher.FateOf(err, "t"); s.leaderOf(&messages[i]) != s.first ||
							fate.Kind != publisher.FateBroker {
							t.Errorf("leader %d: %v", s.leaderOf(&messages[i]), err)
						}
						mu.Lock()
						left = append(left, messages[i])
						mu.Unlock()
					}
				})
			}
			done := make(chan struct{})
			go func() { running.Wait(); close(done) }()
			select {
			case <-done: // the trouble goes on
			case <-time.After(30 * time.Second):
				t.Fatal("calls wait for a broker in trouble")
			}
			end()
			persist(t, p, left)
			total := 0
			for partition := range s.leaders {
				ids := s.log("t", partition)
				total += len(ids)
				slices.Sort(ids)
				if n := len(slices.Compact(slices.Clone(ids))); n != len(ids) {
					t.Errorf("partition %d holds %d messages, of which %d are there again", partition, len(ids), len(ids)-n)
				}
			}
			if total != s.published-100 { // every second call omitted two of its six messages
				t.Errorf("the log holds %d messages of %d", total, s.published-100)
			}
		})
	}
}

// leaderOf returns the broker that leads the message's partition.
func (s *spread) leaderOf(m *publisher.Message) int32 {
	return s.leaders[partitionOf(m.Key, len(s.leaders))]
}

func expectNone(t *testing.T, answers []error) {
	t.Helper()
	if err := firstError(answers); err != nil {
		t.Fatal(err)
	}
}

// The leader takes a batch and does not answer, and another broker becomes the leader. The old leader's batch is in the
// log, or it is not. The batch is sent again to the new leader, and is in the log once, before later batches.
func TestLeaderMovesWhileItIsSilent(t *testing.T) {
	t.Parallel()
	for _, appended := range []bool{true, false} {
		f := newFakeCluster(t, 2)
		f.topic("t", 0, 1)
		p := f.open()
		expect(t, "before", publish(t, p, slices.Concat(rows("t", 0, 2, "a"), rows("t", 1, 2, "b"))), ok, ok)
		asked, over := silentBrokers(f, 1)
		lost := slices.Concat(rows("t", 0, 2, "c"), rows("t", 1, 2, "d", "e"))
		lost[2].Key = lost[1].Key
		expect(t, "in the silence", publish(t, p, lost), ok, unsure, unsure)
		batch := <-asked
		f.set(func() {
			f.topics["t"][1].leader = 0
			if appended {
				batch.broker = 0
				expect(t, "what the old leader took", []kafkago.Error{f.append(batch)}, 0)
			}
		})
		next := rows("t", 1, 2, "f")
		next[0].Key = lost[1].Key
		persist(t, p, append(lost[1:], next...))
		close(over)
		expect(t, "log", f.log("t", 1), "b", "d", "e", "f")
	}
}

// A batch that no call publishes again is dropped while its broker is a suspect. The partition begins a new epoch.
// Whatever the broker does with the old bytes later, no other messages are taken for them.
func TestNewEpochOfSuspect(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 2)
	f.topic("t", 0, 1)
	p := f.open()
	expect(t, "before", publish(t, p, slices.Concat(rows("t", 0, 2, "a"), rows("t", 1, 2, "b"))), ok, ok)
	asked, over := silentBrokers(f, 1)
	expect(t, "in the silence", publish(t, p, slices.Concat(rows("t", 0, 2, "c"), rows("t", 1, 2, "forgotten"))), ok,
		unsure)
	<-asked
	age(p.cluster.topics["t"].partitions[1], 0, idleKept+time.Second)
	f.set(func() { f.bend = nil })
	eventually(t, func() bool { return answered(t, p, rows("t", 1, 2, "d"))[0] == nil })
	f.set(func() {
		if epoch := f.topics["t"][1].producers[1].epoch; epoch != 1 {
			t.Errorf("epoch %d", epoch)
		}
	})
	close(over) // the broker now handles the old batch
	eventually(t, func() bool { return !suspect(p, 1) })
	expect(t, "afterwards", publish(t, p, rows("t", 1, 2, "e")), ok)
	expect(t, "log", f.log("t", 1), "b", "d", "e")
}

// While another call uses the partition of a suspect, no call waits for the partition.
func TestNobodyQueuesForSuspect(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 2)
	f.topic("t", 0, 1)
	p := f.open()
	expect(t, "before", publish(t, p, slices.Concat(rows("t", 0, 2, "a"), rows("t", 1, 2, "b"))), ok, ok)
	asked, over := silentBrokers(f, 1)
	both := func(id string) []publisher.Message { return slices.Concat(rows("t", 0, 2, id), rows("t", 1, 2, id)) }
	done := make(chan []error, 20)
	for i := range cap(done) {
		go func() { done <- p.Publish(t.Context(), both(fmt.Sprint("first", i))) }()
	}
	<-asked
	for range cap(done) {
		got := <-done
		if got[0] != nil {
			t.Errorf("of the healthy broker: %v", got[0])
		}
		if got[1] == nil {
			t.Error("the silent broker has answered")
		}
	}
	for i := range 20 {
		if got := answered(t, p, both(fmt.Sprint("next", i))); got[0] != nil || got[1] == nil {
			t.Errorf("call %d: %v", i, got)
		}
	}
	close(over)
}
