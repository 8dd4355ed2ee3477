package amqp_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/amqp"
)

// A stalledQueue is a fake broker on which the queue "silent" confirms nothing until the test makes it.
type stalledQueue struct {
	*fake
	publisher *amqp.Publisher
	network   *pipes

	mu      sync.Mutex
	waiting []*sent
	copies  int  // number of messages for the queue
	well    bool // the queue confirms
}

func newStalledQueue(t *testing.T) *stalledQueue {
	q := &stalledQueue{network: newPipes()}
	q.fake = newFake(t, q.network, func(m *sent) {
		if m.topic != "silent" {
			m.ack()
			return
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		q.copies++
		if q.well {
			m.ack()
			return
		}
		q.waiting = append(q.waiting, m)
	})
	q.publisher = amqp.New(amqp.Config{Dial: q.network.Dial, URL: func() (string, error) {
		return "amqp://relay:secret@broker", nil
	}})
	t.Cleanup(func() { _ = q.publisher.Close() })
	return q
}

// answer makes the queue answer everything that was sent to it.
func (q *stalledQueue) answer(how func(*sent)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range q.waiting {
		how(m)
	}
	q.waiting = nil
}

// publish publishes messages, every other one of which is for the queue. It checks that the others are accepted and
// that the call ends soon.
func (q *stalledQueue) publish(t *testing.T, messages []publisher.Message, class publisher.Class) {
	t.Helper()
	began := time.Now()
	for i, err := range q.publisher.Publish(within(t, 10*time.Second), messages) {
		switch {
		case messages[i].Topic != "silent":
			want(t, "a message of another queue", err, publisher.Accepted)
		case class == publisher.Accepted:
			want(t, "a message of the queue", err, publisher.Accepted)
		case publisher.ClassOf(err) != class || publisher.ScopeOf(err) != publisher.ScopeTopic || publisher.Repeats(err):
			t.Errorf("a message of the silent queue is %v: %v", publisher.ClassOf(err), err)
		}
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("the call took %v", took)
	}
}

func mixed(n int) []publisher.Message {
	messages := numbered(n, 0, "silent")
	for i := range messages {
		if i%2 == 1 {
			messages[i].Topic = fmt.Sprint("queue-", i%7)
		}
	}
	return messages
}

// A queue confirms nothing, like a queue that is between leaders. Calls do not wait for it. Its messages are sent once,
// however often they are published again. The queue's late answer becomes the answer of the next call that publishes
// the messages.
func TestStalledQueue(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(*sent)
		class  publisher.Class
		copies int // number of copies of each message in the end
	}{
		"confirms":                 {(*sent).ack, publisher.Accepted, 1},
		"rejects":                  {(*sent).nack, publisher.Unavailable, 1},
		"returned, then confirmed": {func(m *sent) { m.sendBack(); m.ack() }, publisher.Topology, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q := newStalledQueue(t)
				messages := mixed(600)
				for range 3 {
					q.publish(t, messages, publisher.Unavailable)
				}
				if n := q.publisher.Unanswered(); q.copies != 300 || n != 300 {
					t.Errorf("%d messages were sent to the queue, of 300; %d are unanswered", q.copies, n)
				}
				q.answer(c.answer)
				synctest.Wait()
				q.publish(t, messages, c.class)
				if n := q.publisher.Unanswered(); n != 0 {
					t.Errorf("%d messages are unanswered in the end", n)
				}
				if q.copies != 300*c.copies {
					t.Errorf("%d messages were sent to the queue in the end", q.copies)
				}
			})
		})
	}
}

// A message is sent again if it was corrected, if its connection has ended, or if the queue has been silent for a long
// time.
func TestStalledQueueGetsMessagesAgain(t *testing.T) {
	t.Parallel()
	for name, happens := range map[string]func(q *stalledQueue, messages []publisher.Message){
		"corrected": func(_ *stalledQueue, messages []publisher.Message) {
			for i := range messages {
				messages[i].Payload = []byte("corrected")
			}
		},
		"connection lost": func(q *stalledQueue, _ []publisher.Message) {
			for _, c := range q.connections() {
				_ = c.Close()
			}
			synctest.Wait()
			<-time.After(time.Second)
		},
		"silent for long": func(*stalledQueue, []publisher.Message) { <-time.After(time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q := newStalledQueue(t)
				messages := mixed(60)
				q.publish(t, messages, publisher.Unavailable)
				happens(q, messages)
				q.well = true
				q.publish(t, messages, publisher.Accepted)
				if q.copies != 60 {
					t.Errorf("%d messages were sent, want each of 30 twice", q.copies)
				}
			})
		})
	}
}

// Hosts that send nothing, during the connect or after it, cost two seconds each.
func TestSilentHosts(t *testing.T) {
	t.Parallel()
	for _, accepts := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			network := newPipes()
			newFake(t, network, func(m *sent) { m.ack() })
			dial := func(ctx context.Context, kind, address string) (net.Conn, error) {
				switch {
				case address == "well:5672":
					return network.Dial(ctx, kind, address)
				case accepts:
					near, _ := net.Pipe()
					return near, nil
				}
				<-ctx.Done()
				return nil, ctx.Err()
			}
			p := amqp.New(amqp.Config{Dial: dial, URL: func() (string, error) {
				return "amqp://relay:secret@silent,mute,well", nil
			}})
			defer p.Close()
			began := time.Now()
			want(t, "a message", p.Publish(within(t, 10*time.Second), numbered(1, 1, "q"))[0], publisher.Accepted)
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// A call does not wait for a broker that falls silent: its messages wait for their confirms, and others go over another
// connection.
func TestBrokerFallsSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := newPipes()
		f := newFake(t, network, func(m *sent) { m.ack() })
		p := amqp.New(amqp.Config{Dial: network.Dial, URL: func() (string, error) {
			return "amqp://relay:secret@broker", nil
		}})
		defer p.Close()
		want(t, "a message", p.Publish(within(t, 10*time.Second), numbered(1, 1, "q"))[0], publisher.Accepted)
		for _, c := range f.connections() {
			c.deaf.Store(true)
		}
		began := time.Now()
		want(t, "a message", p.Publish(within(t, 10*time.Second), numbered(1, 2, "q"))[0], publisher.Unavailable)
		<-time.After(time.Second) // the pause between two connections
		messages := numbered(2, 2, "q")
		answers := p.Publish(within(t, 10*time.Second), messages)
		want(t, "the message once more", answers[0], publisher.Unavailable)
		want(t, "another message", answers[1], publisher.Accepted)
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("it took %v", took)
		}
		<-time.After(10 * time.Second)
		again := p.Publish(within(t, 10*time.Second), messages[:1])[0]
		want(t, "the message in the end", again, publisher.Accepted)
		if !publisher.Republished(again) {
			t.Error("nothing says that the message may be there twice")
		}
	})
}

// Each try with an unknown outcome may have left a copy, and each is counted: the first, whose confirm was given up,
// and the second, which ended with its connection.
func TestUnknownTriesAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network, tries := newPipes(), 0
		newFake(t, network, func(m *sent) {
			if tries++; tries == 2 {
				_ = m.conn.Close()
			}
		})
		p := amqp.New(amqp.Config{Dial: network.Dial, URL: func() (string, error) {
			return "amqp://relay:secret@broker", nil
		}})
		defer p.Close()
		message := numbered(1, 0, "q")
		want(t, "the first try", p.Publish(within(t, 10*time.Second), message)[0], publisher.Unavailable)
		<-time.After(time.Minute)
		second := p.Publish(within(t, 10*time.Second), message)[0]
		want(t, "the second try", second, publisher.Ambiguous)
		if !publisher.Republished(second) {
			t.Error("nothing says that the first try may have left a copy, too")
		}
	})
}

// After a channel has been filled with messages that wait for their confirms, their answers are learned all the same,
// and other messages go out.
func TestFullChannelGoesOn(t *testing.T) {
	t.Parallel()
	for _, channels := range []byte{0, 1} { // no limit, one
		synctest.Test(t, func(t *testing.T) {
			var waiting []*sent
			copies := 0
			network := newPipes()
			f := newFake(t, network, func(m *sent) {
				copies++
				if waiting = append(waiting, m); copies == 1000 {
					m.conn.block("low on memory")
				}
				if copies > 1000 {
					m.ack()
				}
			})
			f.channels = channels
			p := amqp.New(amqp.Config{Dial: network.Dial, URL: func() (string, error) {
				return "amqp://relay:secret@broker", nil
			}})
			defer p.Close()
			messages := numbered(1500, 0, "q")
			for _, err := range p.Publish(within(t, 3*time.Second), messages) {
				want(t, "a message", err, publisher.Unavailable)
			}
			<-time.After(5 * time.Second) // longer than the publish timeout
			f.connections()[0].unblock()
			for _, m := range waiting {
				m.ack()
			}
			synctest.Wait()
			for _, err := range p.Publish(within(t, 10*time.Second), messages) {
				want(t, "a message after the alarm", err, publisher.Accepted)
			}
			if copies != len(messages) {
				t.Errorf("%d messages were sent %d times", len(messages), copies)
			}
		})
	}
}

// A message that was returned is not taken for accepted, even if its confirm comes when no call waits for it.
func TestReturnedBeforeItsConfirm(t *testing.T) {
	t.Parallel()
	confirms := make(chan *sent, 1)
	f := newFake(t, listen(t), func(m *sent) {
		m.sendBack()
		confirms <- m
	})
	p := f.open(t, "")
	messages := numbered(1, 0, "nowhere")
	want(t, "a returned message", p.Publish(within(t, 20*time.Second), messages)[0], publisher.Topology)
	(<-confirms).ack()
	for range 2 {
		call := make(chan error, 1)
		go func() { call <- p.Publish(within(t, 20*time.Second), messages)[0] }()
		select {
		case m := <-confirms:
			m.ack()
			want(t, "the returned message again", <-call, publisher.Topology)
		case err := <-call:
			want(t, "the returned message again", err, publisher.Topology)
		}
	}
}
