package nats_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outbox-relay/outbox-relay/internal/services"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/nats"
)

// A wireCount counts what was published on a server, by message id.
type wireCount struct {
	mu   sync.Mutex
	seen map[string]int
}

func (c *wireCount) add(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = map[string]int{}
	}
	c.seen[id]++
}

// once checks that each message was published exactly once. It waits until all have been counted.
func (c *wireCount) once(t *testing.T, messages []publisher.Message) {
	t.Helper()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for ctx := timely(t); ctx.Err() == nil; <-again.C {
		c.mu.Lock()
		counted := len(c.seen)
		c.mu.Unlock()
		if counted >= len(messages) {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range messages {
		if n := c.seen[messages[i].ID]; n != 1 {
			t.Errorf("message %d of %d was published %d times", i, len(messages), n)
		}
	}
}

// tap counts the messages to a subject, whether a stream stores them or not.
func tap(t *testing.T, url, subject string) *wireCount {
	t.Helper()
	nc, err := client.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	count := &wireCount{}
	if _, err := nc.Subscribe(subject, func(m *client.Msg) { count.add(m.Header.Get("message-id")) }); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return count
}

// slow returns a dialer whose connections deliver everything later by a number of nanoseconds, in both directions.
func slow(by *atomic.Int64) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		far, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		near, middle := net.Pipe()
		go delay(far, middle, by)
		go delay(middle, far, by)
		return near, nil
	}
}

// delay copies everything from one connection to the other, later by the given time, until one of them ends.
func delay(to, from net.Conn, by *atomic.Int64) {
	type part struct {
		due   time.Time
		bytes []byte
	}
	parts := make(chan part, 100_000)
	go func() {
		defer close(parts)
		for {
			b := make([]byte, 64<<10)
			n, err := from.Read(b)
			if err != nil {
				return
			}
			parts <- part{time.Now().Add(time.Duration(by.Load())), b[:n]}
		}
	}()
	for p := range parts {
		<-time.After(time.Until(p.due))
		if _, err := to.Write(p.bytes); err != nil {
			break
		}
	}
	_, _ = to.Close(), from.Close()
	for range parts {
	}
}

// relay publishes messages as the relay does, until all are accepted: each call has the usual time.
func relay(t *testing.T, p *nats.Publisher, messages []publisher.Message) {
	t.Helper()
	left := messages
	for began := time.Now(); len(left) > 0; {
		if time.Since(began) > time.Minute {
			t.Fatalf("%d messages were not accepted in a minute", len(left))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		errs := p.Publish(ctx, left)
		cancel()
		var again []publisher.Message
		for i, err := range errs {
			switch class := publisher.ClassOf(err); class {
			case publisher.Accepted:
			case publisher.Unavailable, publisher.NotAttempted, publisher.Ambiguous:
				again = append(again, left[i])
			default:
				t.Fatalf("message %s is %v: %v", left[i].ID, class, err)
			}
		}
		left = again
	}
}

// However slow the way to the server is, each message goes once.
func TestSlowNetworkMakesNoCopies(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{400 * time.Millisecond, time.Second, 1900 * time.Millisecond} {
		t.Run(by.String(), func(t *testing.T) {
			t.Parallel()
			topic := harness{}.Unknown(t)
			stream(t, broker(t), jetstream.StreamConfig{Subjects: []string{topic}, Duplicates: 100 * time.Millisecond})
			count := tap(t, services.Endpoint(t, "TEST_NATS_URL"), topic)
			var later atomic.Int64
			p := open(t, nats.Config{Dial: slow(&later)})
			persist(t, p)
			later.Store(int64(by))
			all := hotRows(topic, 30, 15)
			relay(t, p, all)
			count.once(t, all)
		})
	}
}

// However late a stream acknowledges within the publish timeout, each message goes once.
func TestLateAcknowledgementsMakeNoCopies(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{750 * time.Millisecond, 2 * time.Second, 9 * time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			t.Parallel()
			var count wireCount
			f := silentStream(t, after, count.add)
			p := open(t, nats.Config{Servers: []string{f.address}})
			accepts(t, p, "b.first")
			accepts(t, p, "b.first")
			all := hotRows("b.1", 20, 20)
			relay(t, p, all)
			count.once(t, all)
		})
	}
}

// inShortCalls publishes messages in calls of a second until all are accepted.
func inShortCalls(t *testing.T, p *nats.Publisher, messages []publisher.Message) {
	t.Helper()
	for left, limit := messages, timely(t); len(left) > 0; {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		var again []publisher.Message
		for i, err := range p.Publish(ctx, left) {
			if publisher.ClassOf(err) != publisher.Accepted {
				again = append(again, left[i])
			}
		}
		cancel()
		if left = again; limit.Err() != nil {
			t.Fatalf("%d messages are not accepted", len(left))
		}
	}
}

// A call may end before the time of its messages does, when the replica's ownership must be renewed. The next calls
// wait on.
func TestShortCallsMakeNoCopies(t *testing.T) {
	t.Parallel()
	server := startServer(t, t.TempDir(), "")
	createStream(t, "nats://"+server.address)
	count := tap(t, "nats://"+server.address, "a.b")
	p := open(t, nats.Config{Servers: []string{server.address}, Timeout: time.Minute})
	accepts(t, p, "a.c")
	server.freeze(t, 4*time.Second)
	all := hotRows("a.b", 20, 20)
	inShortCalls(t, p, all)
	count.once(t, all)
}

// A message that is sent shortly before the end of a call has as much time as one that is sent at its beginning.
func TestMessagesSentLateInACallMakeNoCopies(t *testing.T) {
	t.Parallel()
	var count wireCount
	f := silentStream(t, 400*time.Millisecond, count.add)
	p := open(t, nats.Config{Servers: []string{f.address}, Timeout: time.Second})
	accepts(t, p, "b.first")
	all := hotRows("b.1", 5, 1) // of one key: the third is sent after 800 ms, and its answer comes after 1200
	inShortCalls(t, p, all)
	count.once(t, all)
}

// A server that is frozen for some seconds, with full buffers, gets each message once.
func TestFrozenServerGetsNoCopies(t *testing.T) {
	t.Parallel()
	server := startServer(t, t.TempDir(), "")
	createStream(t, "nats://"+server.address)
	count := tap(t, "nats://"+server.address, "a.b")
	p := open(t, nats.Config{Servers: []string{server.address}})
	accepts(t, p, "a.c")
	all := hotRows("a.b", 200, 200)
	for i := range all {
		all[i].Payload = make([]byte, 100<<10)
	}
	server.freeze(t, 6*time.Second)
	relay(t, p, all)
	count.once(t, all)
}

// A stream that acknowledges nothing is named, and gets no copies.
func TestStreamWithoutAcknowledgements(t *testing.T) {
	t.Parallel()
	topic, js := harness{}.Unknown(t), broker(t)
	s := stream(t, js, jetstream.StreamConfig{Subjects: []string{topic}, NoAck: true})
	count := tap(t, services.Endpoint(t, "TEST_NATS_URL"), topic)
	p := open(t, nats.Config{})
	all := hotRows(topic, 20, 20)
	named := 0
	for ctx := timely(t); named < 5; {
		errs := p.Publish(ctx, all)
		if ctx.Err() != nil {
			t.Fatalf("no_ack is not named: %v", errs[0])
		}
		if publisher.ClassOf(errs[0]) == publisher.Unavailable && strings.Contains(errs[0].Error(), "no_ack") {
			named++
		}
	}
	count.once(t, all)
	config := s.CachedInfo().Config
	config.NoAck = false
	if _, err := js.UpdateStream(timely(t), config); err != nil {
		t.Fatal(err)
	}
	for ctx := timely(t); publisher.ClassOf(p.Publish(ctx, hotRows(topic, 1, 1))[0]) != publisher.Accepted; {
		if ctx.Err() != nil {
			t.Fatal("the stream is not used again")
		}
	}
}

// What a leader was sent that is gone is sent to the next one, long before the time of the call is over.
func TestNextLeaderGetsWhatTheLastHadNotStored(t *testing.T) {
	t.Parallel()
	servers := startCluster(t)
	ctx := timely(t)
	js := connect(t, "nats://"+servers[0].address)
	var s jetstream.Stream
	var err error
	for err = context.DeadlineExceeded; err != nil; { // until the servers have found each other
		attempt, cancel := context.WithTimeout(ctx, time.Second)
		s, err = js.CreateStream(attempt, jetstream.StreamConfig{Name: "A", Subjects: []string{"a.>"}, Replicas: 3})
		cancel()
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	info, err := s.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var leader, other *process
	for i, server := range servers {
		if fmt.Sprint("s", i) == info.Cluster.Leader {
			leader = server
		} else {
			other = server
		}
	}
	p := open(t, nats.Config{Servers: []string{other.address}})
	for publisher.ClassOf(p.Publish(ctx, hotRows("a.b", 5, 5))[0]) != publisher.Accepted || !p.KnowsLeader("a.b") {
		if ctx.Err() != nil {
			t.Fatal("the stream takes nothing, or its leader is not known")
		}
	}
	leader.freeze(t, time.Hour)
	all := hotRows("a.b", 50, 50)
	for left := all; len(left) > 0; {
		call, cancel := context.WithTimeout(t.Context(), 10*patience)
		var again []publisher.Message
		for i, err := range p.Publish(call, left) {
			if publisher.ClassOf(err) != publisher.Accepted {
				again = append(again, left[i])
			}
		}
		cancel()
		if left = again; ctx.Err() != nil {
			t.Fatalf("%d messages wait for the leader that is gone", len(left))
		}
	}
}
