package kafka

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// fates returns what each answer names, or "-" if it names nothing, with brokers by their number.
func fates(f *fakeCluster, messages []publisher.Message, answers []error) []string {
	texts := make([]string, len(answers))
	for i, err := range answers {
		texts[i] = "-"
		if fate, named := publisher.FateOf(err, messages[i].Topic); named {
			texts[i] = fate.String()
		}
		for _, b := range f.brokers {
			if texts[i] == "broker "+b.listener.Addr().String() {
				texts[i] = fmt.Sprint("broker ", b.id)
			}
		}
	}
	return texts
}

// withoutKey returns messages without a key.
func withoutKey(topic string, ids ...string) (messages []publisher.Message) {
	for _, id := range ids {
		messages = append(messages, publisher.Message{ID: id, Topic: topic, Payload: []byte(`{}`)})
	}
	return messages
}

// troubles are the troubles that a part of a cluster can have. Of the topic t, broker 0 leads the partitions 0 and 2,
// and broker 1 leads the partitions 1 and 3.
var troubles = map[string]struct {
	begin func(f *fakeCluster)
	want  [4]string // the fates of messages of the four partitions, once the trouble is known
}{
	"no leader": {func(f *fakeCluster) { f.topics["t"][1].leader = -1 }, [4]string{"-", "partition t/1", "-", "-"}},
	"not enough replicas": {func(f *fakeCluster) {
		f.bend = bendPartition(1, fault{code: kafkago.NotEnoughReplicas})
	}, [4]string{"-", "partition t/1", "-", "-"}},
	"storage error": {func(f *fakeCluster) {
		f.bend = bendPartition(1, fault{code: kafkago.KafkaStorageError})
	}, [4]string{"-", "partition t/1", "-", "-"}},
	"several partitions": {func(f *fakeCluster) {
		f.bend = func(b *fakeBatch) fault {
			if b.partition > 1 {
				return fault{code: kafkago.NotEnoughReplicas}
			}
			return fault{}
		}
	}, [4]string{"-", "-", "partition t/2", "partition t/3"}},
	"long pause": {func(f *fakeCluster) {
		f.throttle, f.throttles = 3_600_000, []int32{1}
	}, [4]string{"-", "broker 1", "-", "broker 1"}},
	"broker away": {func(f *fakeCluster) { f.brokers[1].down = true }, [4]string{"-", "broker 1", "-", "broker 1"}},
	"broker silent": {func(f *fakeCluster) {
		f.bend = bendBroker(1, fault{until: f.closed})
	}, [4]string{"-", "broker 1", "-", "broker 1"}},
	"topic not allowed": {func(f *fakeCluster) {
		f.bend = bendPartition(2, fault{code: kafkago.TopicAuthorizationFailed})
	}, [4]string{"-", "-", "topic t", "-"}},
	"not authorized": {func(f *fakeCluster) {
		f.bend = bendPartition(2, fault{code: kafkago.ClusterAuthorizationFailed})
	}, [4]string{"-", "-", "destination", "-"}},
}

func bendPartition(partition int32, bent fault) func(*fakeBatch) fault {
	return func(b *fakeBatch) fault {
		if b.partition == partition {
			return bent
		}
		return fault{}
	}
}

func bendBroker(broker int32, bent fault) func(*fakeBatch) fault {
	return func(b *fakeBatch) fault {
		if b.broker == broker {
			return bent
		}
		return fault{}
	}
}

// begin makes a cluster run into a trouble.
func begin(f *fakeCluster, trouble string) {
	f.set(func() { troubles[trouble].begin(f) })
	for _, b := range f.brokers {
		if b.down {
			f.setDown(b.id, true)
		}
	}
}

// Each partition in trouble is named in the same way in each call, and the other partitions are not named.
func TestFates(t *testing.T) {
	t.Parallel()
	for name, trouble := range troubles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeCluster(t, 2)
			f.topic("t", 0, 1, 0, 1)
			p := f.open()
			number := 0
			call := func() (messages []publisher.Message, answers []error) {
				number++
				for partition := range 4 {
					messages = append(messages, rows("t", partition, 4, fmt.Sprint(number, "-", partition))...)
				}
				return messages, answered(t, p, messages)
			}
			if _, answers := call(); firstError(answers) != nil {
				t.Fatal(firstError(answers))
			}
			begin(f, name)
			eventually(t, func() bool { // the first answers reveal the trouble
				messages, answers := call()
				return slices.Equal(fates(f, messages, answers), trouble.want[:]) && !slices.ContainsFunc(answers, isAmbiguous)
			})
			for range 3 {
				messages, answers := call()
				expect(t, "fates", fates(f, messages, answers), trouble.want[:]...)
				if slices.ContainsFunc(answers, isAmbiguous) {
					t.Errorf("messages were sent to a partition in trouble: %v", answers)
				}
			}
		})
	}
}

func isAmbiguous(err error) bool { return publisher.ClassOf(err) == unsure }

// Messages without a key are sent where there is no trouble. The answers to messages that ran into trouble do not name
// it, and the messages are accepted elsewhere.
func TestMessagesWithoutKeyAvoidTrouble(t *testing.T) {
	t.Parallel()
	for name, trouble := range troubles {
		if trouble.want[2] == "topic t" || trouble.want[2] == "destination" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeCluster(t, 2)
			f.topic("t", 0, 1, 0, 1)
			p := f.open()
			keyed := func(id string) (messages []publisher.Message) {
				for partition := range 4 {
					messages = append(messages, rows("t", partition, 4, fmt.Sprint(id, partition))...)
				}
				return messages
			}
			expect(t, "before", publish(t, p, keyed("a")), ok, ok, ok, ok)
			begin(f, name)
			number := 0
			calls := func(n int) (missed int) {
				for range n {
					number++
					messages := withoutKey("t", fmt.Sprint(number, "a"), fmt.Sprint(number, "b"), fmt.Sprint(number, "c"))
					for i, err := range answered(t, p, messages) {
						if err != nil {
							missed++
						}
						if fate, named := publisher.FateOf(err, "t"); named {
							t.Errorf("message %d of call %d: the answer names %v: %v", i, number, fate, err)
						}
					}
				}
				return missed
			}
			start := time.Now()
			if missed := calls(12); missed > 12 {
				t.Errorf("%d messages of 36 ran into the trouble", missed)
			}
			limit := 12 * (1 + int(time.Since(start)/avoidance)) // one call for each partition and avoidance
			if missed := calls(100); missed > limit+12*int(time.Since(start)/avoidance) {
				t.Errorf("%d messages of 300 ran into a trouble that was known", missed)
			}
		})
	}
}

// If no partition takes messages, messages without a key wait for their topic.
func TestMessagesWithoutKeyNameTheirTopic(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 2)
	f.topic("t", 0, 1)
	p := f.open()
	messages := slices.Concat(withoutKey("t", "free"), rows("t", 0, 2, "a"), rows("t", 1, 2, "b"))
	expect(t, "before", publish(t, p, messages), ok, ok, ok)
	f.set(func() { f.bend = func(*fakeBatch) fault { return fault{code: kafkago.NotEnoughReplicas} } })
	publish(t, p, messages) // finds it out
	for range 3 {
		expect(t, "refused", fates(f, messages, answered(t, p, messages)), "topic t", "partition t/0", "partition t/1")
	}
	f.set(func() { f.topics["t"][0].leader, f.topics["t"][1].leader = -1, -1 })
	if err := p.cluster.refreshed(t, []string{"t"}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		expect(t, "without leaders", fates(f, messages, answered(t, p, messages)), "topic t", "partition t/0",
			"partition t/1")
	}
	f.set(func() { f.bend, f.topics["t"][0].leader, f.topics["t"][1].leader = nil, 0, 1 })
	eventually(t, func() bool { return firstError(answered(t, p, messages)) == nil })
}

// A message whose row names its partition belongs to that partition, with or without a key.
func TestFateOfChosenPartition(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0, 0)
	p := f.open(func(c *Config) { c.PartitionHeader = "partition" })
	messages := withoutKey("t", "a", "b")
	for i := range messages {
		messages[i].Headers = []publisher.Header{{Name: "partition", Value: fmt.Sprint(i)}}
	}
	f.set(func() { f.bend = bendPartition(1, fault{code: kafkago.NotEnoughReplicas}) })
	for range 3 {
		expect(t, "fates", fates(f, messages, answered(t, p, messages)), "-", "partition t/1")
	}
}

// After the trouble is over, if no messages with a key are sent to the partition, a message without a key finds that
// out.
func TestMessagesWithoutKeyComeBack(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0, 0)
	p := f.open()
	number := 0
	call := func() []error {
		number++
		return answered(t, p, withoutKey("t", fmt.Sprint(number, "a"), fmt.Sprint(number, "b")))
	}
	f.set(func() { f.bend = bendPartition(1, fault{code: kafkago.NotEnoughReplicas}) })
	avoided := &p.cluster.partitionOf(t, "t", 1).avoided
	eventually(t, func() bool { call(); return avoided.Load() != 0 })
	avoided.Store(1)                                                                     // long ago
	eventually(t, func() bool { call(); return avoided.Load() > time.Now().UnixNano() }) // it is tried
	f.set(func() { f.bend = nil })
	avoided.Store(1)
	eventually(t, func() bool { return firstError(call()) == nil && avoided.Load() == 0 })
	if len(f.log("t", 1)) == 0 {
		t.Error("the partition gets nothing after the trouble")
	}
}

// partitionOf returns a partition of a topic to which something was sent.
func (c *cluster) partitionOf(t *testing.T, name string, index int) *partition {
	t.Helper()
	if err := c.refreshed(t, []string{name}); err != nil {
		t.Fatal(err)
	}
	known, _ := c.cached(name, time.Now())
	return known.partitions[index]
}

// A message without a key whose outcome is unknown stays with its partition, as long as the broker recognises it.
func TestMessagesWithoutKeyStayWithTheirBatch(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0, 0)
	p := f.open()
	lost := withoutKey("t", "lost")
	one := p.cluster.partitionOf(t, "t", 0)
	f.set(func() { f.bend = func(*fakeBatch) fault { return fault{code: kafkago.RequestTimedOut, append: true} } })
	expect(t, "at first", publish(t, p, lost), unsure)
	other := p.cluster.partitionOf(t, "t", 1)
	if one.batch == nil {
		one, other = other, one
	}
	f.set(func() { f.bend = bendPartition(one.index, fault{code: kafkago.NotEnoughReplicas}) })
	expect(t, "at once", publish(t, p, lost), down)
	age(one, maxKept/2, 0)
	expect(t, "later", publish(t, p, lost), down)
	if n := len(f.log("t", int(other.index))); n != 0 {
		t.Errorf("%d messages were sent elsewhere", n)
	}
	f.set(func() { f.topics["t"][one.index].leader = -1 })
	eventually(t, func() bool { publish(t, p, lost); return p.cluster.partitionOf(t, "t", int(one.index)) != nil })
	age(one, 2*maxKept, 0) // brokers may have forgotten the batch
	eventually(t, func() bool { return publish(t, p, lost)[0] == ok })
	expect(t, "the log elsewhere", f.log("t", int(other.index)), "lost")
}

// Messages without an answer name their broker if other brokers have answered, and the destination if none has.
func TestFateWithoutAnswer(t *testing.T) {
	t.Parallel()
	for _, silent := range []int32{1, 0} { // the first of the two brokers that is silent
		f := newFakeCluster(t, 2)
		f.topic("t", 0, 1)
		p := f.open()
		expect(t, "before", publish(t, p, slices.Concat(rows("t", 0, 2, "a"), rows("t", 1, 2, "b"))), ok, ok)
		over := make(chan struct{})
		f.set(func() {
			f.bend = func(b *fakeBatch) fault {
				if b.broker >= silent {
					return fault{until: over}
				}
				return fault{}
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), patience/2)
		messages := slices.Concat(rows("t", 0, 2, "c"), rows("t", 1, 2, "d"))
		answers := p.Publish(ctx, messages)
		cancel()
		close(over)
		if silent == 1 {
			expect(t, "one is silent", fates(f, messages, answers), "-", "broker 1")
		} else {
			expect(t, "both are silent", fates(f, messages, answers), "destination", "destination")
		}
		_ = p.Close()
	}
}

func firstError(answers []error) error {
	for _, err := range answers {
		if err != nil {
			return err
		}
	}
	return nil
}

// The same holds for a call that is cancelled while it waits.
func TestFateOfCancelledCall(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 2)
	f.topic("t", 0, 1)
	p := f.open()
	expect(t, "before", publish(t, p, slices.Concat(rows("t", 0, 2, "a"), rows("t", 1, 2, "b"))), ok, ok)
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	p.cluster.mu.Lock()
	other := p.cluster.nodes[0]
	p.cluster.mu.Unlock()
	messages := slices.Concat(rows("t", 1, 2, "c"), rows("t", 0, 2, "d"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan []error, 1)
	asked := make(chan struct{})
	f.set(func() {
		f.bend = func(b *fakeBatch) fault {
			if b.broker == 1 {
				close(asked)
				return fault{until: over}
			}
			return fault{until: asked} // this broker answers when the silent one has been sent its batch
		}
	})
	started := time.Now()
	go func() { done <- p.Publish(ctx, messages) }()
	<-asked
	eventually(t, func() bool {
		p.cluster.mu.Lock()
		defer p.cluster.mu.Unlock()
		return other.heard.After(started)
	})
	cancel()
	expect(t, "cancelled", fates(f, messages, <-done), "broker 1", "-")
}
