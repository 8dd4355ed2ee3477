package kafka

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// silentBrokers makes brokers take requests without answering them until over is closed. asked receives each batch that
// they took.
func silentBrokers(f *fakeCluster, from int32) (asked chan *fakeBatch, over chan struct{}) {
	asked, over = make(chan *fakeBatch, 1000), make(chan struct{})
	f.set(func() {
		f.bend = func(b *fakeBatch) fault {
			if b.broker < from {
				return fault{}
			}
			asked <- b
			return fault{until: over}
		}
	})
	return asked, over
}

// awaitConnection waits until the brokers from the given one on have been dialled again.
func awaitConnection(t *testing.T, p *Publisher, from int32) {
	t.Helper()
	eventually(t, func() bool {
		p.cluster.mu.Lock()
		defer p.cluster.mu.Unlock()
		for id, b := range p.cluster.nodes {
			if id >= from && (len(b.idle) == 0 || b.failed != nil) {
				return false
			}
		}
		return true
	})
}

// suspect reports whether a broker has left the last request without an answer.
func suspect(p *Publisher, node int32) bool {
	p.cluster.mu.Lock()
	defer p.cluster.mu.Unlock()
	return p.cluster.nodes[node].silences > 0
}

// Brokers that take requests and do not answer delay no other call. The call that meets the silence returns the answers
// of the other brokers without waiting for its own deadline. After that, one call at a time waits for the silent
// broker, with the same batch, and the messages of all other calls come back at once.
func TestSilentBrokersDelayNobody(t *testing.T) {
	t.Parallel()
	eachSpread(t, func(t *testing.T, s *spread) {
		asked, over := silentBrokers(s.fakeCluster, s.first)
		t.Cleanup(func() { close(over) })
		p := s.open()
		t.Cleanup(func() { _ = p.Close() })
		lost := s.messages()
		s.check(t, "the first call", answered(t, p, lost), unsure)
		for n := range len(asked) {
			if b := <-asked; b.sequence != 0 {
				t.Errorf("batch %d of a silent broker has sequence %d", n, b.sequence)
			}
		}
		patient, cancel := context.WithCancel(t.Context())
		waiting := make(chan []error, 1)
		if s.troubled > 0 {
			awaitConnection(t, p, s.first)
			go func() { waiting <- p.Publish(patient, lost) }()
			if b := <-asked; b.sequence != 0 || b.epoch != 0 {
				t.Errorf("another batch is sent than the one without an answer: %+v", b)
			}
		}
		for range 20 { // while the other one waits
			s.check(t, "beside a call that waits", answered(t, p, s.messages()), down)
		}
		cancel()
	})
}

// A call that goes only to a silent broker does not keep its caller from the other brokers either, if these answer
// other calls.
func TestSilenceIsNoticedBesideOtherCalls(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 2)
	f.topic("t", 0, 1)
	asked, over := silentBrokers(f, 1)
	p := f.open()
	t.Cleanup(func() { close(over); _ = p.Close() })
	started, done := time.Now(), make(chan []error, 1)
	go func() { done <- p.Publish(t.Context(), rows("t", 1, 2, "silent")) }()
	<-asked
	for number := 0; ; number++ {
		select {
		case answers := <-done:
			if publisher.ClassOf(answers[0]) != unsure {
				t.Errorf("answered %v", answers[0])
			}
			if took := time.Since(started); took >= maxReplication+answerSlack {
				t.Errorf("the call took %v, beside %d others that were answered at once", took, number)
			}
			return
		default:
			expect(t, "beside it", publish(t, p, rows("t", 0, 2, fmt.Sprint(number))), ok)
		}
	}
}

// If a follower of one partition has stopped, the leader answers for all partitions of a request only after the time
// allowed for the replicas. The leader is not silent: its other partitions go on, and the rows of this partition are
// not blamed.
func TestLaggingReplicaHoldsItsPartitionAlone(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 2)
	f.topic("t", 0, 1, 1)
	f.set(func() {
		f.bend = func(b *fakeBatch) fault { return fault{lagging: b.partition == 1} }
	})
	p := f.open()
	lagging := rows("t", 1, 3, "lagging")
	call := func(id string) []publisher.Class {
		var got []publisher.Class
		for _, err := range answered(t, p, slices.Concat(rows("t", 0, 3, id), lagging, rows("t", 2, 3, id))) {
			got = append(got, publisher.ClassOf(err))
		}
		return got
	}
	expect(t, "at first", call("first"), ok, unsure, unsure)
	number := 0
	eventually(t, func() bool {
		number++
		return slices.Equal(call(fmt.Sprint("next", number)), []publisher.Class{ok, down, ok})
	})
	f.set(func() { f.bend = nil })
	eventually(t, func() bool { return slices.Equal(call("last"), []publisher.Class{ok, ok, ok}) })
	expect(t, "log", f.log("t", 1), "lagging")
}

// When the broker answers again, everything is as before, and what was sent to it in the meantime is in the log once.
func TestSilenceEnds(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 2)
	f.topic("t", 0, 1)
	asked, over := silentBrokers(f, 1)
	p := f.open()
	first := append(rows("t", 0, 2, "a"), rows("t", 1, 2, "b")...)
	var got []publisher.Class
	for _, err := range answered(t, p, first) {
		got = append(got, publisher.ClassOf(err))
	}
	expect(t, "in the silence", got, ok, unsure)
	<-asked
	f.set(func() { f.bend = nil })
	close(over)
	eventually(t, func() bool { return answered(t, p, rows("t", 1, 2, "b"))[0] == nil })
	eventually(t, func() bool { return answered(t, p, rows("t", 1, 2, "c"))[0] == nil })
	expect(t, "log", f.log("t", 1), "b", "c")
}

// A cluster that is silent as a whole is held as a whole, and the next call asks it again.
func TestWholeClusterIsSilent(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0, 0)
	asked, over := silentBrokers(f, 0)
	t.Cleanup(func() { close(over) })
	p := f.open()
	t.Cleanup(func() { _ = p.Close() })
	for _, want := range []publisher.Class{unsure, down} {
		if len(p.cluster.nodes) > 0 {
			awaitConnection(t, p, 0)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		expect(t, "a call that waits", []publisher.Class{publisher.ClassOf(p.Publish(ctx, rows("t", 0, 2, "a"))[0])}, want)
		cancel()
		<-asked
	}
	awaitConnection(t, p, 0)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan []error, 1)
	go func() { done <- p.Publish(ctx, rows("t", 0, 2, "a")) }()
	<-asked
	answers := answered(t, p, rows("t", 1, 2, "b"))
	if publisher.ClassOf(answers[0]) != down || publisher.ScopeOf(answers[0]) != publisher.ScopeDestination {
		t.Errorf("beside a call that waits: %v", answers[0])
	}
	cancel()
	<-done
}

// A forgotten connection is one that a device on the way has forgotten: what is written disappears, and nothing comes
// back. New connections work.
type forgotten struct {
	net.Conn
	after *atomic.Int64 // connections up to this number are forgotten
	own   int64
}

func (c *forgotten) Write(b []byte) (int, error) {
	if c.own <= c.after.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// After the first call that finds its connections forgotten, everything goes on with new connections, even if many
// calls found it out at the same time. Forgotten connections do not count as silence of the brokers.
func TestForgottenConnections(t *testing.T) {
	t.Parallel()
	for _, brokers := range []int32{1, 3} {
		f := newFakeCluster(t, int(brokers))
		var leaders []int32
		for i := range 6 {
			leaders = append(leaders, int32(i)%brokers)
		}
		f.topic("t", leaders...)
		var made, after atomic.Int64
		p := f.open(func(c *Config) {
			c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				var d net.Dialer
				conn, err := d.DialContext(ctx, network, address)
				if err != nil {
					return nil, err
				}
				return &forgotten{conn, &after, made.Add(1)}, nil
			}
		})
		rounds := 0
		calls := func() (answers [][]error) {
			rounds++
			answers = make([][]error, 6)
			var running sync.WaitGroup
			for i := range answers {
				messages := rows("t", i, 6, fmt.Sprint(i, "-", rounds))
				running.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					defer cancel()
					answers[i] = p.Publish(ctx, messages)
				})
			}
			running.Wait()
			return answers
		}
		well := func() bool {
			return !slices.ContainsFunc(calls(), func(errs []error) bool { return errs[0] != nil })
		}
		if !well() {
			t.Fatal("not accepted at first")
		}
		after.Store(made.Load())
		if !slices.ContainsFunc(calls(), func(errs []error) bool { return publisher.ClassOf(errs[0]) == unsure }) {
			t.Error("every call had a connection of its own")
		}
		p.cluster.mu.Lock()
		for _, b := range p.cluster.nodes {
			if !b.until.IsZero() {
				t.Errorf("a broker is left alone until %v because its connections were forgotten", b.until)
			}
		}
		p.cluster.mu.Unlock()
		eventually(t, well)
	}
}
