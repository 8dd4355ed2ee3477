package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// rows returns messages with the ids, each with a key of its own that leads to the partition (of n).
func rows(topic string, partition, n int, ids ...string) []publisher.Message {
	var messages []publisher.Message
	for _, id := range ids {
		for try := 0; ; try++ {
			key := fmt.Appendf(nil, "%s-%d", id, try)
			if int(partitionOf(murmur2(key), n)) == partition {
				messages = append(messages, publisher.Message{ID: id, Topic: topic, Key: key, Payload: []byte(`{}`), Type: "application/json"})
				break
			}
		}
	}
	return messages
}

// publish is one call, which must end long before its deadline.
func publish(t *testing.T, p *Publisher, messages []publisher.Message) []publisher.Class {
	t.Helper()
	answers := answersOf(t, p, messages)
	classes := make([]publisher.Class, len(answers))
	for i, err := range answers {
		classes[i] = publisher.ClassOf(err)
	}
	return classes
}

func answersOf(t *testing.T, p *Publisher, messages []publisher.Message) []error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	start := time.Now()
	answers := p.Publish(ctx, messages)
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("the call took %v", took)
	}
	return answers
}

func expect[T any](t *testing.T, what string, got []T, want ...T) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// The classes of the answers, in a word each.
const (
	ok      = publisher.Accepted
	behind  = publisher.NotAttempted
	never   = publisher.Permanent
	missing = publisher.Topology
	down    = publisher.Unavailable
	unsure  = publisher.Ambiguous
)

// once bends the first batch for which it is asked.
func once(f fault) func(*fakeBatch) fault {
	return times(1, f)
}

func times(n int, f fault) func(*fakeBatch) fault {
	return func(*fakeBatch) fault {
		if n--; n >= 0 {
			return f
		}
		return fault{}
	}
}

func TestLeaderMoves(t *testing.T) {
	t.Parallel()
	for _, code := range []kafkago.Error{kafkago.NotLeaderForPartition, kafkago.UnknownTopicOrPartition, kafkago.KafkaStorageError, kafkago.NetworkException} {
		f := newFakeCluster(t, 2)
		f.topic("t", 0, 0)
		p := f.open()
		expect(t, "first call", publish(t, p, rows("t", 0, 2, "a")), ok)
		f.set(func() { f.topics["t"][0].leader = 1; f.bend = once(fault{code: code}) })
		expect(t, "after the move", publish(t, p, slices.Concat(rows("t", 0, 2, "b"), rows("t", 1, 2, "c"))), ok, ok)
		expect(t, "log of 0", f.log("t", 0), "a", "b")
		expect(t, "log of 1", f.log("t", 1), "c")

		f.set(func() { f.bend = times(2, fault{code: code}) })
		messages := rows("t", 0, 2, "d")
		answers := answersOf(t, p, messages)
		if publisher.ClassOf(answers[0]) != down || publisher.ScopeOf(answers[0]) != publisher.ScopeMessage {
			t.Errorf("%v twice: %v", code, answers[0])
		}
		expect(t, "the next call", publish(t, p, messages), ok)
		expect(t, "log of 0", f.log("t", 0), "a", "b", "d")
	}
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
	if publisher.ClassOf(answers[1]) != behind || answers[2] != nil || answers[3] != nil || answers[4] != nil {
		t.Errorf("the others: %v", answers[1:])
	}
	f.set(func() { f.topics["t"][1].leader = 0 })
	eventually(t, func() bool { return answersOf(t, p, stuck)[0] == nil })
	expect(t, "log", f.log("t", 1), "a", "b")
}

// eventually polls until the condition holds.
func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen")
		}
		<-tick.C
	}
}

// What the broker appended without saying so is resent until it says so, and is in the log once.
func TestUnresolvedBatchIsResent(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fault{
		"timed out":               {code: kafkago.RequestTimedOut, append: true},
		"not enough after append": {code: kafkago.NotEnoughReplicasAfterAppend, append: true},
		"timed out, not appended": {code: kafkago.RequestTimedOut},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newFakeCluster(t, 1)
			cluster.topic("t", 0)
			p := cluster.open()
			cluster.set(func() { cluster.bend = once(f) })
			messages := rows("t", 0, 1, "a", "b")
			expect(t, "first call", publish(t, p, messages), unsure, unsure)
			messages = append(messages, rows("t", 0, 1, "c")...)
			expect(t, "second call", publish(t, p, messages), ok, ok, ok)
			expect(t, "log", cluster.log("t", 0), "a", "b", "c")
			expect(t, "third call, on purpose", publish(t, p, messages[:1]), ok)
			expect(t, "log", cluster.log("t", 0), "a", "b", "c", "a")
		})
	}
}

// A connection that dies is replaced and the batch resent within the call.
func TestLostAnswerIsResentAtOnce(t *testing.T) {
	t.Parallel()
	for _, appended := range []bool{true, false} {
		f := newFakeCluster(t, 1)
		f.topic("t", 0)
		p := f.open()
		f.set(func() { f.bend = once(fault{drop: true, append: appended}) })
		expect(t, "answers", publish(t, p, rows("t", 0, 1, "a", "b")), ok, ok)
		expect(t, "log", f.log("t", 0), "a", "b")
	}
}

// The batch stays while the broker is away, is resolved by a call that knows nothing of it, and its
// messages are recognised when they come again.
func TestUnresolvedBatchOutlastsCalls(t *testing.T) {
	t.Parallel()
	for _, appended := range []bool{true, false} {
		f := newFakeCluster(t, 1)
		f.topic("t", 0, 0)
		p := f.open()
		expect(t, "first", publish(t, p, rows("t", 0, 2, "zero")), ok)
		f.set(func() { f.bend = times(2, fault{drop: true, append: appended}) })
		lost := rows("t", 0, 2, "a", "b", "c")
		lost[2].Key = lost[0].Key
		expect(t, "lost", publish(t, p, lost), unsure, unsure, unsure)
		f.setDown(0, true)
		expect(t, "while the broker is away", publish(t, p, lost), down, down, behind)
		f.setDown(0, false)
		eventually(t, func() bool { return answersOf(t, p, rows("t", 0, 2, "other"))[0] == nil })
		expect(t, "log", f.log("t", 0), "zero", "a", "b", "c", "other")
		late := rows("t", 0, 2, "d")
		late[0].Key = lost[0].Key
		expect(t, "given again", publish(t, p, append(lost, late...)), ok, ok, ok, ok)
		expect(t, "log", f.log("t", 0), "zero", "a", "b", "c", "other", "d")
	}
}

// Keyless messages find the partition that has them, wherever the spreading points.
func TestUnresolvedKeylessMessages(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0, 0, 0)
	p := f.open()
	f.set(func() { f.bend = times(2, fault{drop: true, append: true}) })
	messages := []publisher.Message{{ID: "a", Topic: "t"}, {ID: "b", Topic: "t"}}
	expect(t, "lost", publish(t, p, messages), unsure, unsure)
	expect(t, "given again", publish(t, p, append(messages, publisher.Message{ID: "c", Topic: "t"})), ok, ok, ok)
	all := slices.Concat(f.log("t", 0), f.log("t", 1), f.log("t", 2))
	slices.Sort(all)
	expect(t, "logs", all, "a", "b", "c")
}

// A kept batch that turns out accepted must not be reported while an older row of its key fails.
func TestPrefixHoldsForRecalledMessages(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0)
	p := f.open()
	f.set(func() { f.bend = times(2, fault{drop: true, append: true}) })
	messages := rows("t", 0, 1, "b")
	expect(t, "lost", publish(t, p, messages), unsure)
	older := publisher.Message{ID: "a", Topic: "t", Key: messages[0].Key, Headers: []publisher.Header{{Name: "CC", Value: "x"}}}
	expect(t, "resolved", publish(t, p, rows("t", 0, 1, "other")), ok)
	expect(t, "behind an older one", publish(t, p, append([]publisher.Message{older}, messages...)), never, behind)
	older.Headers = nil
	f.set(func() { f.bend = once(fault{code: kafkago.NotEnoughReplicas}) })
	expect(t, "behind one that the broker refuses", publish(t, p, append([]publisher.Message{older}, messages...)), down, behind)
	expect(t, "alone", publish(t, p, messages), ok)
	expect(t, "log", f.log("t", 0), "b", "other")
}

func TestLostSequenceBeginsNewEpoch(t *testing.T) {
	t.Parallel()
	for _, code := range []kafkago.Error{kafkago.OutOfOrderSequenceNumber, kafkago.InvalidProducerEpoch, kafkago.UnknownProducerId} {
		f := newFakeCluster(t, 1)
		f.topic("t", 0)
		p := f.open()
		expect(t, "first", publish(t, p, rows("t", 0, 1, "a")), ok)
		f.set(func() { f.bend = once(fault{code: code}) })
		expect(t, "new epoch", publish(t, p, rows("t", 0, 1, "b")), ok)
		f.set(func() { f.bend = times(2, fault{code: code}) })
		messages := rows("t", 0, 1, "c")
		expect(t, "refused again", publish(t, p, messages), down)
		expect(t, "then taken", publish(t, p, messages), ok)
		expect(t, "log", f.log("t", 0), "a", "b", "c")
	}
}

// The log was truncated: the kept batch is gone with what was before it.
func TestUnresolvedBatchOfLostSequence(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0)
	p := f.open()
	expect(t, "first", publish(t, p, rows("t", 0, 1, "a")), ok)
	f.set(func() { f.bend = times(2, fault{drop: true, append: true}) })
	messages := rows("t", 0, 1, "b", "c")
	expect(t, "lost", publish(t, p, messages), unsure, unsure)
	f.set(func() {
		p := f.topics["t"][0]
		p.ids, p.producers[4000] = nil, &fakeProducer{}
	})
	expect(t, "given again", publish(t, p, append(messages, rows("t", 0, 1, "d")...)), ok, ok, ok)
	expect(t, "log", f.log("t", 0), "b", "c", "d")
}

// The answer to a batch is lost, the resend is refused for its sequence, and so is the new epoch: then
// it is known that nothing of it is in the log.
func TestLostAnswerThenLostSequence(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0)
	p := f.open()
	faults := []fault{{drop: true}, {code: kafkago.OutOfOrderSequenceNumber}, {code: kafkago.OutOfOrderSequenceNumber}}
	f.set(func() {
		f.bend = func(*fakeBatch) (next fault) {
			if len(faults) > 0 {
				next, faults = faults[0], faults[1:]
			}
			return next
		}
	})
	messages := rows("t", 0, 1, "a", "b")
	expect(t, "refused", publish(t, p, messages), down, down)
	expect(t, "given again", publish(t, p, messages), ok, ok)
	expect(t, "log", f.log("t", 0), "a", "b")
}

func TestLastEpochTakesNewProducerID(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0)
	p := f.open()
	expect(t, "first", publish(t, p, rows("t", 0, 1, "a")), ok)
	p.cluster.states["t"][0].producer.epoch = 1<<15 - 1
	f.set(func() {
		f.topics["t"][0].producers[4000].epoch = 1<<15 - 1
		f.topics["t"][0].producers[4000].last = nil
		f.bend = once(fault{code: kafkago.UnknownProducerId})
		delete(f.topics["t"][0].producers, 4000)
	})
	messages := rows("t", 0, 1, "b")
	expect(t, "no epochs left", publish(t, p, messages), down)
	if p.identity.known.Load() != unknownProducer {
		t.Error("the spent producer id is still in use")
	}
	expect(t, "with a new id", publish(t, p, messages), ok)
}

// One record that the broker refuses fails alone; its key waits, the rest flows, and the sequence has
// no gap.
func TestPoisonFailsAlone(t *testing.T) {
	t.Parallel()
	for _, code := range []kafkago.Error{kafkago.InvalidRecord, kafkago.InvalidTimestamp} {
		f := newFakeCluster(t, 1)
		f.topic("t", 0)
		p := f.open()
		epochs := map[int16]bool{}
		f.set(func() {
			f.bend = func(b *fakeBatch) fault {
				epochs[b.epoch] = true
				if slices.Contains(b.ids, "m37") || slices.Contains(b.ids, "m90") {
					return fault{code: code}
				}
				return fault{}
			}
		})
		var ids []string
		want := make([]publisher.Class, 200)
		for i := range 200 {
			ids = append(ids, fmt.Sprintf("m%d", i))
		}
		messages := rows("t", 0, 1, ids...)
		want[37], want[90] = never, never
		for _, i := range []int{38, 150} {
			messages[i].Key, want[i] = messages[37].Key, behind
		}
		expect(t, code.Title(), publish(t, p, messages), want...)
		var logged []string
		for i := range ids {
			if want[i] == ok {
				logged = append(logged, ids[i])
			}
		}
		expect(t, "log", f.log("t", 0), logged...)
		if len(epochs) != 1 {
			t.Errorf("a refusal cost an epoch: %v", epochs)
		}
		if f.requests > 40 {
			t.Errorf("%d requests to find two of 200 records", f.requests)
		}
	}
}

// A topic with a smaller limit costs a few requests the first time and then none.
func TestSmallerBatchesAreLearned(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0)
	p := f.open()
	f.set(func() {
		f.bend = func(b *fakeBatch) fault {
			if len(b.ids) > 50 {
				return fault{code: kafkago.MessageSizeTooLarge}
			}
			return fault{}
		}
	})
	var ids []string
	for i := range 200 {
		ids = append(ids, fmt.Sprintf("m%d", i))
	}
	messages := rows("t", 0, 1, ids...)
	for _, limit := range []int{12, 8} {
		before := f.requests
		for _, class := range publish(t, p, messages) {
			if class != ok {
				t.Fatalf("the answer is %v", class)
			}
		}
		if n := f.requests - before; n > limit {
			t.Errorf("%d requests, more than %d", n, limit)
		}
	}
}

// A resend is allowed for each batch of a call, not once for all.
func TestEachBatchMayBeResent(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0)
	p := f.open()
	number := 0
	f.set(func() {
		f.bend = func(*fakeBatch) fault {
			if number++; number%2 == 1 {
				return fault{drop: true, append: true}
			}
			return fault{}
		}
	})
	messages := rows("t", 0, 1, "a", "b", "c", "d")
	for i := range messages {
		messages[i].Payload = make([]byte, maxBatchBytes/2)
	}
	expect(t, "four batches", publish(t, p, messages), ok, ok, ok, ok)
	expect(t, "log", f.log("t", 0), "a", "b", "c", "d")
}

func TestKeylessMessagesAreSpread(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0, 0, -1, 0)
	p := f.open()
	for i := range 12 {
		expect(t, "call", publish(t, p, []publisher.Message{{ID: fmt.Sprint(i), Topic: "t"}, {ID: fmt.Sprint(i), Topic: "t"}}), ok, ok)
		if _, err := p.cluster.refresh(t.Context(), []string{"t"}); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, "by partition", []int{len(f.log("t", 0)), len(f.log("t", 1)), len(f.log("t", 2)), len(f.log("t", 3))}, 8, 8, 0, 8)
}

// A broker that has just started has no producer ids for a moment.
func TestProducerIDsRunShort(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0)
	p := f.open()
	asked := 0
	f.set(func() {
		f.identities = func() kafkago.Error {
			if asked++; asked < 4 {
				return kafkago.GroupLoadInProgress
			}
			return 0
		}
	})
	expect(t, "after some tries", publish(t, p, rows("t", 0, 1, "a")), ok)

	p = f.open()
	f.set(func() { f.identities = func() kafkago.Error { return kafkago.GroupLoadInProgress } })
	answer := answersOf(t, p, rows("t", 0, 1, "b"))[0]
	if publisher.ClassOf(answer) != down || publisher.ScopeOf(answer) != publisher.ScopeDestination {
		t.Errorf("without producer ids: %v", answer)
	}
	expect(t, "log", f.log("t", 0), "a")
}

// A broker that fails on everything spends no attempt, and is not asked for each record.
func TestBrokerErrorSpendsNothing(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0)
	p := f.open()
	f.set(func() { f.bend = func(*fakeBatch) fault { return fault{code: kafkago.Unknown} } })
	var ids []string
	for i := range 200 {
		ids = append(ids, fmt.Sprintf("m%d", i))
	}
	for _, class := range publish(t, p, rows("t", 0, 1, ids...)) {
		if class != down {
			t.Fatalf("the answer is %v", class)
		}
	}
	if f.requests > 30 {
		t.Errorf("%d requests for 200 records", f.requests)
	}
}

// Whatever the broker says after it has appended, the next message of the same size is not taken for
// the one before.
func TestErrorAfterAppendLosesNothing(t *testing.T) {
	t.Parallel()
	for _, code := range []kafkago.Error{
		kafkago.Unknown, kafkago.Error(9999), kafkago.NotLeaderForPartition, kafkago.UnknownTopicOrPartition,
		kafkago.KafkaStorageError, kafkago.LeaderNotAvailable, kafkago.RequestTimedOut,
	} {
		f := newFakeCluster(t, 1)
		f.topic("t", 0)
		p := f.open()
		f.set(func() { f.bend = times(2, fault{code: code, append: true}) })
		if publish(t, p, rows("t", 0, 1, "a"))[0] == ok {
			t.Errorf("%v: accepted", code)
		}
		f.set(func() { f.bend = nil })
		expect(t, code.Title(), publish(t, p, rows("t", 0, 1, "b")), ok)
		if log := f.log("t", 0); !slices.Contains(log, "b") {
			t.Errorf("%v: the log is %v", code, log)
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
		if publisher.ClassOf(answers[0]) != want.Class || publisher.ScopeOf(answers[0]) != want.Scope || !errors.Is(answers[0], code) {
			t.Errorf("%v: %v", code, answers[0])
		}
		expect(t, "behind", []publisher.Class{publisher.ClassOf(answers[1]), publisher.ClassOf(answers[2])}, want.Class, behind)
		expect(t, "next call", publish(t, p, messages), ok, ok, ok)
		expect(t, "log", f.log("t", 0), "a", "b", "c")
	}
}

// A key over two topics: nothing of it gets into the second before the first has taken what is older,
// although both are led by the same broker.
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
		{ID: "a1", Topic: "two", Key: []byte("a")}, {ID: "a2", Topic: "one", Key: []byte("a")},
		{ID: "a3", Topic: "two", Key: []byte("a")}, {ID: "b1", Topic: "two", Key: []byte("b")},
	}
	expect(t, "one refuses", publish(t, p, messages), ok, down, behind, ok)
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
	before := f.dials
	for range 50 {
		expect(t, "in the backoff", publish(t, p, rows("t", 0, 2, "e")), down)
	}
	if dials := f.dials - before; dials > 20 {
		t.Errorf("%d dials in 50 calls", dials)
	}
	f.setDown(0, false)
	f.setDown(1, false)
	start := time.Now()
	eventually(t, func() bool { return answersOf(t, p, rows("t", 1, 2, "d"))[0] == nil })
	if took := time.Since(start); took > 2*maxBackoff {
		t.Errorf("recovery took %v", took)
	}
}

// A call that waits for a partition in use holds up neither its own other partitions nor anybody else.
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

func TestWithoutIdempotence(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0, 0)
	f.identities = func() kafkago.Error { return kafkago.ClusterAuthorizationFailed }
	var log bytes.Buffer
	p := f.open(func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	producers := map[int64]bool{}
	f.set(func() { f.bend = func(b *fakeBatch) fault { producers[b.producer] = true; return fault{} } })
	for i := range 3 {
		expect(t, "call", publish(t, p, rows("t", 0, 2, fmt.Sprint(i))), ok)
	}
	f.set(func() { f.bend = once(fault{drop: true, append: true}) })
	messages := rows("t", 0, 2, "a")
	expect(t, "a lost answer", publish(t, p, messages), unsure)
	expect(t, "given again", publish(t, p, messages), ok)
	expect(t, "log", f.log("t", 0), "0", "1", "2", "a", "a")
	if len(producers) != 1 || !producers[noProducer] {
		t.Errorf("producer ids on the wire: %v", producers)
	}
	if n := strings.Count(log.String(), "idempotent"); n != 1 {
		t.Errorf("%d lines in the log:\n%s", n, log.String())
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
}

// Credentials are asked for again when a connection is made, and do not show in errors or logs.
func TestRotatedCredentials(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0)
	f.password = "secret-old"
	password := "secret-wrong"
	var log bytes.Buffer
	p := f.open(func(c *Config) {
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		c.SASL = func() (sasl.Mechanism, error) { return Mechanism("PLAIN", "relay", password) }
	})
	answer := answersOf(t, p, rows("t", 0, 1, "a"))[0]
	if publisher.ClassOf(answer) != down || publisher.ShortOf(answer) != "not authorized" {
		t.Errorf("a wrong password: %v", answer)
	}
	err := p.Ping(t.Context())
	if err == nil || strings.Contains(err.Error()+answer.Error()+log.String(), "secret") {
		t.Errorf("ping: %v; log: %s", err, log.String())
	}
	password = "secret-old"
	eventually(t, func() bool { return answersOf(t, p, rows("t", 0, 1, "a"))[0] == nil })
	f.set(func() { f.password = "secret-new" })
	f.setDown(0, true)
	f.setDown(0, false)
	answer = answersOf(t, p, rows("t", 0, 1, "b"))[0]
	if class := publisher.ClassOf(answer); class != unsure && class != down { // the old connection died with it
		t.Errorf("the old password: %v", answer)
	}
	password = "secret-new"
	eventually(t, func() bool { return answersOf(t, p, rows("t", 0, 1, "b"))[0] == nil })
}
