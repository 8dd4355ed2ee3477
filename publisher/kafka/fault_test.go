package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

func TestLeaderMoves(t *testing.T) {
	t.Parallel()
	for _, code := range []kafkago.Error{
		kafkago.NotLeaderForPartition, kafkago.UnknownTopicOrPartition, kafkago.KafkaStorageError,
		kafkago.NetworkException,
	} {
		f := newFakeCluster(t, 2)
		f.topic("t", 0, 0)
		p := f.open()
		expect(t, "first call", publish(t, p, rows("t", 0, 2, "a")), ok)
		f.set(func() { f.topics["t"][0].leader = 1; f.bend = once(fault{code: code}) })
		expect(t, "after the move", publish(t, p, slices.Concat(rows("t", 0, 2, "b"), rows("t", 1, 2, "c"))), ok, ok)
		expect(t, "log of 0", f.log("t", 0), "a", "b")
		expect(t, "log of 1", f.log("t", 1), "c")

		f.set(func() { f.bend = times(4, fault{code: code}) })
		expect(t, "a leader that begins late", publish(t, p, rows("t", 0, 2, "late")), ok)
		f.set(func() { f.bend = func(*fakeBatch) fault { return fault{code: code} } })
		messages := rows("t", 0, 2, "d")
		answers := answersOf(t, p, messages)
		if publisher.ClassOf(answers[0]) != down || publisher.ScopeOf(answers[0]) != publisher.ScopeMessage {
			t.Errorf("%v each time: %v", code, answers[0])
		}
		f.set(func() { f.bend = nil })
		expect(t, "the next call", publish(t, p, messages), ok)
		expect(t, "log of 0", f.log("t", 0), "a", "b", "late", "d")
	}
}

// The leader that was known cannot be reached, and another broker leads the partition by now: the same call goes there.
func TestLeaderMovesFromBrokerThatIsAway(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 2)
	f.topic("t", 0, 1)
	p := f.open()
	expect(t, "before", publish(t, p, rows("t", 0, 2, "a")), ok) // broker 1 is known, and has not been dialled yet
	f.setDown(1, true)
	f.set(func() { f.topics["t"][1].leader = 0 })
	expect(t, "after the move", publish(t, p, rows("t", 1, 2, "b", "c")), ok, ok)
	expect(t, "log", f.log("t", 1), "b", "c")
}

func TestLeaderlessPartitionDelaysNobody(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0, -1)
	p := f.open()
	stuck, flowing := rows("t", 1, 2, "a", "b"), rows("t", 0, 2, "c", "d")
	stuck[1].Key = stuck[0].Key
	keyless := publisher.Message{ID: "e", Topic: "t"}
	answers := answersOf(t, p, slices.Concat(stuck, flowing, []publisher.Message{keyless}))
	if publisher.ClassOf(answers[0]) != down || publisher.ScopeOf(answers[0]) != publisher.ScopeMessage {
		t.Errorf("a leaderless partition: %v", answers[0])
	}
	if publisher.ClassOf(answers[1]) != after || answers[2] != nil || answers[3] != nil || answers[4] != nil {
		t.Errorf("the others: %v", answers[1:])
	}
	f.set(func() { f.topics["t"][1].leader = 0 })
	eventually(t, func() bool { return answersOf(t, p, stuck)[0] == nil })
	expect(t, "log", f.log("t", 1), "a", "b")
}

func TestKeylessMessagesAreSpread(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0, 0, -1, 0)
	p := f.open()
	for i := range 100 {
		expect(t, "call", publish(t, p,
			[]publisher.Message{{ID: fmt.Sprint(i), Topic: "t"}, {ID: fmt.Sprint(i), Topic: "t"}}), ok, ok)
		if err := p.cluster.refreshed(t, []string{"t"}); err != nil {
			t.Fatal(err)
		}
	}
	for partition := range 4 {
		if n := len(f.log("t", partition)); n%2 != 0 || (n < 20) != (partition == 2) {
			t.Errorf("partition %d has %d of 200 messages, sent two at a time", partition, n)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for code, want := range map[kafkago.Error]publisher.Error{
		kafkago.NotEnoughReplicas:          {Class: down, Scope: publisher.ScopeMessage},
		kafkago.TopicAuthorizationFailed:   {Class: missing, Scope: publisher.ScopeTopic},
		kafkago.ClusterAuthorizationFailed: {Class: down, Scope: publisher.ScopeDestination},
	} {
		f := newFakeCluster(t, 1)
		f.topic("t", 0)
		p := f.open()
		f.set(func() { f.bend = once(fault{code: code}) })
		messages := rows("t", 0, 1, "a", "b", "c")
		messages[2].Key = messages[0].Key
		answers := answersOf(t, p, messages)
		if publisher.ClassOf(answers[0]) != want.Class || publisher.ScopeOf(answers[0]) != want.Scope ||
			!errors.Is(answers[0], code) {
			t.Errorf("%v: %v", code, answers[0])
		}
		expect(t, "after it", []publisher.Class{publisher.ClassOf(answers[1]), publisher.ClassOf(answers[2])}, want.Class,
			after)
		expect(t, "next call", publish(t, p, messages), ok, ok, ok)
		expect(t, "log", f.log("t", 0), "a", "b", "c")
	}
}

// One key over two topics: no message of it gets into the second topic before the first has taken the older ones,
// although one broker leads both topics.
func TestKeyOverTopicsGoesInWaves(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("one", 0)
	f.topic("two", 0)
	p := f.open()
	f.set(func() {
		f.bend = func(b *fakeBatch) fault {
			if b.topic == "one" {
				return fault{code: kafkago.NotEnoughReplicas}
			}
			return fault{}
		}
	})
	messages := []publisher.Message{
		{ID: "a1", Topic: "two", Key: []byte("a")},
		{ID: "a2", Topic: "one", Key: []byte("a")},
		{ID: "a3", Topic: "two", Key: []byte("a")},
		{ID: "b1", Topic: "two", Key: []byte("b")},
	}
	expect(t, "one refuses", publish(t, p, messages), ok, down, after, ok)
	expect(t, "log of two", f.log("two", 0), "a1", "b1")
	f.set(func() { f.bend = nil })
	expect(t, "one takes", publish(t, p, messages[1:3]), ok, ok)
	expect(t, "log of two", f.log("two", 0), "a1", "b1", "a3")
}

func TestOneOfTwoBrokersAway(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 2)
	f.topic("t", 0, 1)
	p := f.open()
	messages := slices.Concat(rows("t", 0, 2, "a"), rows("t", 1, 2, "b"))
	expect(t, "both up", publish(t, p, messages), ok, ok)
	f.setDown(1, true)
	var answers []error
	eventually(t, func() bool {
		answers = answersOf(t, p, slices.Concat(rows("t", 0, 2, "c"), rows("t", 1, 2, "d")))
		return publisher.ClassOf(answers[1]) == down
	})
	if answers[0] != nil || publisher.ScopeOf(answers[1]) != publisher.ScopeMessage {
		t.Errorf("one broker away: %v", answers)
	}
	f.setDown(0, true)
	eventually(t, func() bool {
		answers = answersOf(t, p, rows("t", 0, 2, "e"))
		return publisher.ClassOf(answers[0]) == down
	})
	if publisher.ScopeOf(answers[0]) != publisher.ScopeDestination {
		t.Errorf("all brokers away: %v", answers[0])
	}
	dials := func() (n int) { f.set(func() { n = f.dials }); return n }
	before := dials()
	for range 50 {
		expect(t, "in the backoff", publish(t, p, rows("t", 0, 2, "e")), down)
	}
	if n := dials() - before; n > 20 {
		t.Errorf("%d dials in 50 calls", n)
	}
	f.setDown(0, false)
	f.setDown(1, false)
	start := time.Now()
	eventually(t, func() bool { return answersOf(t, p, rows("t", 1, 2, "d"))[0] == nil })
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("recovery took %v", took)
	}
}

// A call that waits for a partition in use delays neither its own other partitions nor other calls.
func TestBusyPartitionDelaysNobody(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 2)
	f.topic("t", 0, 1)
	p := f.open()
	release := make(chan struct{})
	held := make(chan struct{})
	f.set(func() {
		f.bend = func(b *fakeBatch) fault {
			if b.partition == 0 && b.ids[0] == "slow" {
				close(held)
				return fault{until: release}
			}
			return fault{}
		}
	})
	done := make(chan []error, 2)
	go func() { done <- p.Publish(t.Context(), rows("t", 0, 2, "slow")) }()
	<-held
	go func() { done <- p.Publish(t.Context(), slices.Concat(rows("t", 0, 2, "a"), rows("t", 1, 2, "b"))) }()
	eventually(t, func() bool { return len(f.log("t", 1)) == 1 })
	expect(t, "a third call", publish(t, p, rows("t", 1, 2, "c")), ok)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	expect(t, "waiting in vain", p.Publish(ctx, rows("t", 0, 2, "x")), publisher.ErrNotAttempted)
	close(release)
	for range 2 {
		for _, err := range <-done {
			if err != nil {
				t.Error(err)
			}
		}
	}
	expect(t, "log", f.log("t", 0), "slow", "a")
}

// A job that gets its turn late is sent at once, also beside a request of its call that its leader answers slowly.
func TestLateTurnIsNotDelayed(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0, 0)
	p := f.open()
	hold := map[string]chan struct{}{"first": make(chan struct{}), "slow": make(chan struct{})}
	held := make(chan string, 10)
	f.set(func() {
		f.bend = func(b *fakeBatch) fault {
			held <- b.ids[0]
			return fault{until: hold[b.ids[0]]} // without a channel, it is answered at once
		}
	})
	done := make(chan []error, 2)
	go func() { done <- p.Publish(t.Context(), rows("t", 0, 2, "first")) }()
	<-held
	go func() {
		done <- p.Publish(t.Context(), slices.Concat(rows("t", 0, 2, "late"), rows("t", 1, 2, "slow")))
	}()
	<-held
	close(hold["first"])
	if id := <-held; id != "late" {
		t.Errorf("%s was sent", id)
	}
	close(hold["slow"])
	for range 2 {
		expectNone(t, <-done)
	}
}

func TestThrottle(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0)
	p := f.open()
	f.set(func() { f.throttle = 40 })
	expect(t, "first", publish(t, p, rows("t", 0, 1, "a")), ok)
	start := time.Now()
	f.set(func() { f.throttle = 60_000 })
	expect(t, "a short pause", publish(t, p, rows("t", 0, 1, "b")), ok)
	if took := time.Since(start); took < 20*time.Millisecond {
		t.Errorf("the pause of 40ms was not kept: %v", took)
	}
	answer := answersOf(t, p, rows("t", 0, 1, "c"))[0]
	if publisher.ClassOf(answer) != down || publisher.ShortOf(answer) != "throttled" {
		t.Errorf("a long pause: %v", answer)
	}
	// No question is sent on the connection from which the broker does not read.
	f.topic("late", 0)
	known := answersOf(t, p, rows("late", 0, 1, "d"))[0] // without the answer about the topic, it would not be the quota's
	if err := p.Ping(t.Context()); err != nil || publisher.ShortOf(known) != "throttled" {
		t.Errorf("asking in the pause: %v, %v", err, known)
	}
}

// A producer id that the cluster refuses for good is replaced by another one.
func TestProducerIDRefused(t *testing.T) {
	t.Parallel()
	for _, code := range []kafkago.Error{kafkago.InvalidTransactionState, kafkago.InvalidProducerIDMapping} {
		f := newFakeCluster(t, 1)
		f.topic("t", 0)
		p := f.open()
		f.set(func() {
			f.bend = func(b *fakeBatch) fault {
				if b.producer == 1 {
					return fault{code: code}
				}
				return fault{}
			}
		})
		expect(t, "the first id", publish(t, p, rows("t", 0, 1, "a")), down)
		expect(t, "the second id", publish(t, p, rows("t", 0, 1, "a")), ok)
		expect(t, "log", f.log("t", 0), "a")
	}
}
