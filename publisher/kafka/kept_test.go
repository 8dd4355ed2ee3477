package kafka

import (
	"fmt"
	"slices"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

// age makes time pass for the batch that the partition keeps: since it was kept, and since a call last had its
// messages.
func age(p *partition, kept, given time.Duration) {
	p.batch.since = time.Now().Add(-kept)
	p.batch.given.Store(time.Now().Add(-given).UnixNano())
}

// A batch without an answer is sent again while its rows are published again. If no call has published them for a long
// time, they were deleted, or another replica has published them. In addition, brokers do not remember a producer for
// ever.
func TestOldUnresolvedBatchIsDropped(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name        string
		kept, given time.Duration
		want        []string
	}{
		{"control", idleKept, idleKept / 2, []string{"first", "lost", "other"}},
		{"nobody gives it", idleKept + time.Second, idleKept + time.Second, []string{"first", "other"}},
		{"for too long", maxKept + time.Second, 0, []string{"first", "other"}},
	} {
		f := newFakeCluster(t, 1)
		f.topic("t", 0)
		p := f.open()
		expect(t, "first", publish(t, p, rows("t", 0, 1, "first")), ok)
		f.set(func() { f.bend = times(2, fault{drop: true}) })
		lost := rows("t", 0, 1, "lost")
		expect(t, "lost", publish(t, p, lost), unsure)
		age(p.cluster.topics["t"].partitions[0], test.kept, test.given)
		expect(t, test.name, publish(t, p, rows("t", 0, 1, "other")), ok)
		expect(t, test.name+": log", f.log("t", 0), test.want...)
		if epoch := p.cluster.topics["t"].partitions[0].producer.epoch; (epoch == 1) != (len(test.want) == 2) {
			t.Errorf("%s: epoch %d", test.name, epoch)
		}
		if test.given == 0 {
			expect(t, "given again", publish(t, p, lost), ok)
			expect(t, "log", f.log("t", 0), "first", "other", "lost")
		}
	}
}

// A row that was corrected while its batch waited for an answer is a different message. It does not get the answer to
// the old bytes.
func TestCorrectedRowIsSent(t *testing.T) {
	t.Parallel()
	for _, wrong := range []fault{{code: kafkago.UnknownTopicOrPartition}, {drop: true, append: true}} {
		f := newFakeCluster(t, 1)
		f.topic("t", 0)
		p := f.open()
		f.set(func() { f.bend = func(*fakeBatch) fault { return wrong } })
		messages := rows("t", 0, 1, "a", "b", "c")
		publish(t, p, messages)
		f.set(func() { f.bend = nil })
		messages[1].Payload = []byte(`{"corrected":true}`)
		expect(t, "corrected", publish(t, p, messages), ok, ok, ok)
		expect(t, "log", f.log("t", 0), "a", "b", "c", "b")
	}
}

// Neither the leader nor the cluster knows the topic. The batch is in no log, and is not kept for a topic of the same
// name that is created later.
func TestUnknownTopicIsDefinite(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0)
	p := f.open()
	expect(t, "first", publish(t, p, rows("t", 0, 1, "first")), ok)
	f.set(func() { delete(f.topics, "t") })
	deleted := rows("t", 0, 1, "deleted")
	expect(t, "without its topic", publish(t, p, deleted), missing)
	if p.kept.Any() {
		t.Error("the batch is kept")
	}
	f.topic("t", 0)
	expect(t, "another row", publish(t, p, rows("t", 0, 1, "other")), ok)
	expect(t, "log", f.log("t", 0), "other")
}

// A topic that is deleted and created again does not get what was on its way to the old topic, unless its rows are
// published again.
func TestTopicMadeAgainGetsNoOldBatch(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0, 0)
	p := f.open()
	f.set(func() { f.bend = times(4, fault{drop: true, append: true}) })
	lost := slices.Concat(rows("t", 0, 2, "a"), rows("t", 1, 2, "b"))
	expect(t, "lost", publish(t, p, lost), unsure, unsure)
	f.set(func() { delete(f.topics, "t"); f.bend = nil })
	eventually(t, func() bool { return publish(t, p, rows("t", 0, 2, "c"))[0] == missing })
	expect(t, "asked again", publish(t, p, rows("t", 0, 2, "c")), missing)
	f.topic("t", 0, 0)
	expect(t, "others", publish(t, p, slices.Concat(rows("t", 0, 2, "c"), rows("t", 1, 2, "d"))), ok, ok)
	expect(t, "log of 0", f.log("t", 0), "c")
	expect(t, "log of 1", f.log("t", 1), "d")
	expect(t, "given again", publish(t, p, lost[:1]), ok)
	expect(t, "log of 0", f.log("t", 0), "c", "a")
}

// A topic that is forgotten by mistake, because a broker does not know it yet, loses nothing. What is sent to it next
// is not taken for what was sent to it before.
func TestForgottenTopicBeginsNewSequence(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0)
	p := f.open()
	want := []string{}
	for i := range 5 {
		id := fmt.Sprint("row", i)
		want = append(want, id)
		expect(t, id, publish(t, p, rows("t", 0, 1, id)), ok)
		f.set(func() { f.hidden = true })
		if err := p.cluster.refreshed(t, []string{"t"}); err != nil {
			t.Fatal(err)
		}
		f.set(func() { f.hidden = false })
	}
	expect(t, "log", f.log("t", 0), want...)
}

// Topics that come and go leave nothing in memory.
func TestTopicsAreForgotten(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	p := f.open()
	for i := range 100 {
		name := fmt.Sprint("tenant-", i)
		f.topic(name, 0, 0)
		expect(t, name, publish(t, p, rows(name, 0, 2, name)), ok)
		f.set(func() { delete(f.topics, name) })
		publish(t, p, rows(name, 0, 2, name))
		publish(t, p, rows(name, 0, 2, name))
	}
	if c := p.cluster; len(c.topics) != 0 {
		t.Errorf("%d topics are remembered", len(c.topics))
	}
}

// An accepted batch keeps no bytes in memory, however long its ids are remembered.
func TestAcceptedBatchLetsGoOfItsBytes(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0)
	p := f.open()
	f.set(func() { f.bend = times(2, fault{drop: true, append: true}) })
	messages := rows("t", 0, 1, "large")
	messages[0].Payload = make([]byte, 5<<20)
	expect(t, "lost", publish(t, p, messages), unsure)
	kept := p.cluster.topics["t"].partitions[0].batch
	expect(t, "given again", publish(t, p, messages), ok)
	if kept.bytes != nil {
		t.Errorf("an accepted batch still refers to %d bytes", cap(kept.bytes))
	}
}
