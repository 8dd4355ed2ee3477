package kafka

import (
	"slices"
	"testing"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A batch that the broker appended without an answer that says so is sent again until the answer says so. It is in the
// log once.
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

// A connection that dies is replaced, and the batch is sent again within the call.
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

// A partition that the broker leaves out of its answer may have the batch or not, and the batch is sent again at once.
func TestPartitionLeftOutIsResentAtOnce(t *testing.T) {
	t.Parallel()
	for _, appended := range []bool{true, false} {
		f := newFakeCluster(t, 1)
		f.topic("t", 0, 0)
		p := f.open()
		f.set(func() { f.bend = once(fault{omit: true, append: appended}) })
		messages := slices.Concat(rows("t", 0, 2, "a", "b"), rows("t", 1, 2, "c"))
		expect(t, "answers", publish(t, p, messages), ok, ok, ok)
		expect(t, "log", slices.Concat(f.log("t", 0), f.log("t", 1)), "a", "b", "c")
	}
}

// The batch stays while the broker is away. A call that knows nothing of it resolves it, and its messages are
// recognised when they are published again.
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
		expect(t, "while the broker is away", publish(t, p, lost), down, down, after)
		f.setDown(0, false)
		eventually(t, func() bool { return answersOf(t, p, rows("t", 0, 2, "other"))[0] == nil })
		expect(t, "log", f.log("t", 0), "zero", "a", "b", "c", "other")
		late := rows("t", 0, 2, "d")
		late[0].Key = lost[0].Key
		expect(t, "given again", publish(t, p, append(lost, late...)), ok, ok, ok, ok)
		expect(t, "log", f.log("t", 0), "zero", "a", "b", "c", "other", "d")
	}
}

// Messages without a key find the partition that has them, wherever the spread counter points.
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

// A kept batch that turns out to be accepted must not be reported while an older row of its key fails.
func TestPrefixHoldsForRecalledMessages(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0)
	p := f.open()
	f.set(func() { f.bend = times(2, fault{drop: true, append: true}) })
	messages := rows("t", 0, 1, "b")
	expect(t, "lost", publish(t, p, messages), unsure)
	older := publisher.Message{
		ID: "a", Topic: "t", Key: messages[0].Key,
		Headers: []publisher.Header{{Name: "CC", Value: "x"}},
	}
	expect(t, "resolved", publish(t, p, rows("t", 0, 1, "other")), ok)
	expect(t, "after an older one", publish(t, p, append([]publisher.Message{older}, messages...)), never, after)
	older.Headers = nil
	f.set(func() { f.bend = once(fault{code: kafkago.NotEnoughReplicas}) })
	expect(t, "after one that the broker refuses", publish(t, p, append([]publisher.Message{older}, messages...)), down,
		after)
	expect(t, "alone", publish(t, p, messages), ok)
	expect(t, "log", f.log("t", 0), "b", "other")
}

func TestLostSequenceBeginsNewEpoch(t *testing.T) {
	t.Parallel()
	for _, code := range []kafkago.Error{
		kafkago.OutOfOrderSequenceNumber, kafkago.InvalidProducerEpoch,
		kafkago.UnknownProducerId,
	} {
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

// The log was truncated: the kept batch is gone together with what was before it.
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
		p.ids, p.producers[1] = nil, &fakeProducer{}
	})
	expect(t, "given again", publish(t, p, append(messages, rows("t", 0, 1, "d")...)), ok, ok, ok)
	expect(t, "log", f.log("t", 0), "b", "c", "d")
}

// The answer to a batch is lost, the resend is refused because of its sequence, and so is the new epoch. It is then
// known that nothing of the batch is in the log.
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
	p.cluster.topics["t"].partitions[0].producer.epoch = 1<<15 - 1
	f.set(func() {
		f.topics["t"][0].producers[1].epoch = 1<<15 - 1
		f.bend = once(fault{code: kafkago.UnknownProducerId})
	})
	messages := rows("t", 0, 1, "b")
	expect(t, "no epochs left", publish(t, p, messages), down)
	if p.producer.Load() != unknownProducer {
		t.Error("the spent producer id is still in use")
	}
	expect(t, "with a new id", publish(t, p, messages), ok)
}

// A resend is allowed for each batch of a call, not once for all batches.
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

// Whatever the broker answers after an append, the next message of the same size is not taken for the previous one.
func TestErrorAfterAppendLosesNothing(t *testing.T) {
	t.Parallel()
	for _, code := range []kafkago.Error{
		kafkago.Unknown, kafkago.Error(9999), kafkago.NotLeaderForPartition, kafkago.UnknownTopicOrPartition,
		kafkago.KafkaStorageError, kafkago.LeaderNotAvailable, kafkago.RequestTimedOut,
	} {
		f := newFakeCluster(t, 1)
		f.topic("t", 0)
		p := f.open()
		f.set(func() { f.bend = func(*fakeBatch) fault { return fault{code: code, append: true} } })
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

// If the broker may hold a message twice, because it has answered so that the batch had to be sent as another one, the
// answer says so, and the relay counts it. Messages that were not sent before, or that the broker recognises, are not
// counted.
func TestCopiesAreTold(t *testing.T) {
	t.Parallel()
	inTurn := func(faults ...fault) func(*fakeBatch) fault {
		return func(*fakeBatch) (next fault) {
			if len(faults) > 0 {
				next, faults = faults[0], faults[1:]
			}
			return next
		}
	}
	for name, test := range map[string]struct {
		bend   func(*fakeBatch) fault
		copies bool
	}{
		"an unknown error": {bend: once(fault{code: kafkago.Unknown, append: true}), copies: true},
		"a lost answer":    {bend: once(fault{drop: true, append: true})},
		"a lost sequence":  {bend: once(fault{code: kafkago.OutOfOrderSequenceNumber})},
		"a lost answer, then a lost sequence": {
			bend: inTurn(fault{drop: true, append: true}, fault{code: kafkago.UnknownProducerId}), copies: true,
		},
		"a moved leader": {bend: once(fault{code: kafkago.NotLeaderForPartition, append: true})},
		"replicas are missing, and then they are": {bend: once(fault{code: kafkago.NotEnoughReplicas})},
	} {
		f := newFakeCluster(t, 1)
		f.topic("t", 0)
		p := f.open()
		expect(t, "first", publish(t, p, rows("t", 0, 1, "first")), ok)
		f.set(func() { f.bend = test.bend })
		for i, err := range answersOf(t, p, rows("t", 0, 1, "a", "b")) {
			if publisher.Republished(err) != test.copies {
				t.Errorf("%s: message %d: %v, the log is %v", name, i, err, f.log("t", 0))
			}
		}
		if twice := len(f.log("t", 0)) > 3; twice != test.copies {
			t.Errorf("%s: the log is %v", name, f.log("t", 0))
		}
	}
}
