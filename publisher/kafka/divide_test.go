package kafka

import (
	"fmt"
	"slices"
	"testing"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// One record that the broker refuses is refused alone. Its key waits, the rest flows, and the sequence has no gap.
func TestPoisonFailsAlone(t *testing.T) {
	t.Parallel()
	for _, code := range []kafkago.Error{kafkago.InvalidRecord, kafkago.PolicyViolation} {
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
		want[37], want[90] = publisher.Refused, publisher.Refused
		for _, i := range []int{38, 150} {
			messages[i].Key, want[i] = messages[37].Key, after
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

// However many records a schema or a policy refuses, the others of their partition go on.
func TestManyInvalidRecords(t *testing.T) {
	t.Parallel()
	for _, code := range []kafkago.Error{kafkago.InvalidRecord, kafkago.PolicyViolation, kafkago.InvalidMessage} {
		f := newFakeCluster(t, 1)
		f.topic("t", 0)
		p := f.open()
		f.set(func() {
			f.bend = func(b *fakeBatch) fault {
				if slices.ContainsFunc(b.ids, func(id string) bool { return id[0] == 'x' }) {
					return fault{code: code}
				}
				return fault{}
			}
		})
		var ids, logged []string
		var want []publisher.Class
		for i := range 100 {
			ids, want = append(ids, fmt.Sprint("x", i)), append(want, publisher.Refused)
			if i%10 == 9 {
				id := fmt.Sprint("valid", i)
				ids, want, logged = append(ids, id), append(want, ok), append(logged, id)
			}
		}
		expect(t, code.Title(), publish(t, p, rows("t", 0, 1, ids...)), want...)
		expect(t, "log", f.log("t", 0), logged...)
	}
}

// A topic with a smaller limit costs a few extra requests in each call.
func TestSmallerBatches(t *testing.T) {
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
	for range 2 {
		before := f.requests
		for _, class := range publish(t, p, messages) {
			if class != ok {
				t.Fatalf("the answer is %v", class)
			}
		}
		if n := f.requests - before; n > 12 {
			t.Errorf("%d requests, more than 12", n)
		}
	}
}

// If a broker fails on everything, no attempt is spent, and the broker is not asked for each record.
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
