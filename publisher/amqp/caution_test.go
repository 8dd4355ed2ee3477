package amqp_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/amqp"
)

// Of two queues on an exchange, one is full and read slowly, and the other takes everything. Whatever the number of
// rows and keys, the other queue gets no more copies than rows are accepted, except for those of one batch and one for
// each call that finds no room.
func TestCopiesBesideAFullQueue(t *testing.T) {
	t.Parallel()
	for _, keys := range []int{0, 1, 300} {
		t.Run(fmt.Sprint(keys, " keys"), func(t *testing.T) {
			t.Parallel()
			var room, rejected atomic.Int64
			f := newFake(t, listen(t), func(m *sent) {
				if room.Add(-1) >= 0 {
					m.ack()
					return
				}
				rejected.Add(1)
				m.nack()
			})
			p := f.open(t, "fanout")
			messages := numbered(900, keys, "full")
			warned := int64(0) // number of answers that report a possible copy
			publish := func() (accepted int) {
				var left []publisher.Message
				for i, err := range p.Publish(within(t, 20*time.Second), messages) {
					switch class := publisher.ClassOf(err); class {
					case publisher.Accepted:
						accepted++
						continue
					case publisher.Unavailable:
						if publisher.ScopeOf(err) != publisher.ScopeTopic {
							t.Fatalf("it reaches %v: %v", publisher.ScopeOf(err), err)
						}
						if publisher.Repeats(err) {
							warned++
						}
					case publisher.NotAttempted:
					default:
						t.Fatalf("it is %v: %v", class, err)
					}
					left = append(left, messages[i])
				}
				messages = left
				return accepted
			}
			publish()
			first := rejected.Load()
			for range 10 {
				publish()
			}
			before := rejected.Load()
			if before-first != 10 {
				t.Errorf("%d copies in ten calls while nothing is free; %d in the first", before-first, first)
			}
			accepted, calls := 0, 0
			for ; len(messages) > 0; calls++ {
				room.Store(40)
				accepted += publish()
			}
			if n := rejected.Load() - before; n > int64(accepted+calls) {
				t.Errorf("%d copies while %d were accepted in %d calls", n, accepted, calls)
			}
			if n := rejected.Load(); warned != n {
				t.Errorf("%d answers say that there may be a copy, of %d", warned, n)
			}
		})
	}
}

// One queue of several confirms nothing, like a queue without the majority of its nodes. Its topic is held, and not the
// broker. The queue does not get a flood of copies. Even if a row of the topic is alone, its answer still names the
// topic.
func TestSilentQueue(t *testing.T) {
	t.Parallel()
	for name, exchange := range map[string]string{"default exchange": "", "exchange": "x"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				network := newPipes()
				var silent atomic.Bool
				var copies atomic.Int64
				silent.Store(true)
				f := newFake(t, network, func(m *sent) {
					if m.topic == "silent" && silent.Load() {
						copies.Add(1)
						return
					}
					m.ack()
				})
				p := amqp.New(amqp.Config{
					Dial: network.Dial, Exchange: exchange,
					URL: func() (string, error) { return "amqp://relay:secret@broker", nil },
				})
				t.Cleanup(func() { _ = p.Close() })
				publish := func(messages []publisher.Message) {
					copies.Store(0)
					for i, err := range p.Publish(within(t, 10*time.Second), messages) {
						switch class := publisher.ClassOf(err); {
						case messages[i].Topic != "silent":
							want(t, "a message of another queue", err, publisher.Accepted)
						case class == publisher.NotAttempted:
						case class != publisher.Unavailable || publisher.ScopeOf(err) != publisher.ScopeTopic || publisher.Repeats(err):
							t.Errorf("a message of the silent queue is %v: %v", class, err)
						}
					}
				}
				messages := numbered(800, 0, "silent")
				for i := range messages {
					if i%2 == 1 {
						messages[i].Topic = fmt.Sprint("queue-", i%7)
					}
				}
				publish(messages)
				for range 3 {
					publish(messages)
					if n := copies.Load(); n > 1 {
						t.Errorf("%d copies in another call", n)
					}
					publish(messages[:1])
				}
				if n := len(f.connections()); n != 1 {
					t.Errorf("%d connections", n)
				}
				silent.Store(false)
				<-time.After(time.Minute) // what was sent to it before is lost
				for _, err := range p.Publish(within(t, 10*time.Second), messages) {
					want(t, "a message when the queue is back", err, publisher.Accepted)
				}
			})
		})
	}
}

// An x-delayed-message exchange delivers even the messages that it returns.
func TestReturnedFromDelay(t *testing.T) {
	t.Parallel()
	f := newFake(t, listen(t), func(m *sent) {
		m.sendBack()
		m.ack()
	})
	p := f.open(t, "delayed")
	messages := numbered(2, 0, "q")
	messages[0].Headers = []publisher.Header{{Name: "x-delay", Value: "5000"}}
	messages[1].Topic = "missing"
	answers := p.Publish(within(t, 10*time.Second), messages)
	for i, err := range answers {
		want(t, "a message that was returned", err, publisher.Topology)
		if publisher.Repeats(err) != (i == 0) {
			t.Errorf("message %d may have left a copy: %v", i, err)
		}
	}
}

// A fanout to a full queue and to another one, on a real broker: copies of hundreds of keys.
func TestPartlyRejected(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "fanout", amqp091.QueueTypeClassic)
	full, healthy := h.Unknown(t), h.Unknown(t)
	h.create(t, full, amqp091.Table{"x-max-length": int64(1), "x-overflow": "reject-publish"})
	h.create(t, healthy, nil)
	p := h.open(t, nil)
	t.Cleanup(func() { _ = p.Close() })
	want(t, "the message that fills it", p.Publish(within(t, 10*time.Second), numbered(1, 1, full))[0], publisher.Accepted)
	const keys, calls = 300, 20
	for range calls {
		for _, err := range p.Publish(within(t, 10*time.Second), numbered(2*keys, keys, full))[:keys] {
			want(t, "a message", err, publisher.Unavailable)
		}
	}
	if n := len(h.Received(t, healthy, 1+keys)); n > 1+keys+calls {
		t.Errorf("the healthy queue holds %d messages after %d calls, of which one was to be tried each time", n, calls)
	}
}
