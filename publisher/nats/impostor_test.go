package nats_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/outbox-relay/outbox-relay/internal/services"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/nats"
)

// An impostor answers publishes in place of a stream, when and as a test wants.
type impostor struct {
	nc       *client.Conn
	subject  string
	arriving chan *client.Msg
}

func newImpostor(t *testing.T) *impostor {
	t.Helper()
	nc, err := client.Connect(services.Endpoint(t, "TEST_NATS_URL"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	im := &impostor{nc: nc, subject: harness{}.Unknown(t), arriving: make(chan *client.Msg, 10_000)}
	if _, err := nc.ChanSubscribe(im.subject, im.arriving); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return im
}

func (im *impostor) next(t *testing.T) *client.Msg {
	t.Helper()
	select {
	case m := <-im.arriving:
		return m
	case <-time.After(patience):
		t.Fatal("no message arrived")
		return nil
	}
}

// quiet reports whether nothing more has arrived than was taken. Before it decides, the impostor's answers have reached
// the publisher, and what the publisher had sent by then has reached the impostor.
func (im *impostor) quiet(t *testing.T, p *nats.Publisher) bool {
	t.Helper()
	if err := im.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := p.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := im.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return len(im.arriving) == 0
}

func (im *impostor) messages(n, keys int) []publisher.Message {
	all := make([]publisher.Message, n)
	for i := range all {
		id := fmt.Sprint(i)
		all[i] = publisher.Message{ID: id, DedupID: id, Topic: im.subject}
		if keys > 0 {
			all[i].Key = fmt.Append(nil, i%keys)
		}
	}
	return all
}

func respond(t *testing.T, m *client.Msg, body string) {
	t.Helper()
	if err := m.Respond([]byte(body)); err != nil {
		t.Error(err)
	}
}

const stored = `{"stream":"S","seq":1}`

// However its answers are delayed and reordered, a key has one message in flight.
func TestOneMessageOfAKeyAtATime(t *testing.T) {
	im := newImpostor(t)
	p := open(t, nats.Config{})
	const keys, n = 5, 200
	answers := make(chan []error, 1)
	go func() { answers <- p.Publish(timely(t), im.messages(n, keys)) }()

	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var waiting []*client.Msg
	onWay, last := map[string]bool{}, map[string]int{}
	done, unfinished := map[string]int{}, keys
	for answered := range n {
		// All keys with remaining messages must be in flight, each with one message.
		for len(waiting) < unfinished {
			m := im.next(t)
			key := m.Header.Get("message-key")
			var id int
			if _, err := fmt.Sscan(m.Header.Get("message-id"), &id); err != nil {
				t.Fatal(err)
			}
			if onWay[key] {
				t.Fatalf("message %d of key %s came while another one was on its way", id, key)
			}
			if before, ok := last[key]; ok && id != before+keys {
				t.Fatalf("of key %s message %d came after %d", key, id, before)
			}
			onWay[key], last[key] = true, id
			waiting = append(waiting, m)
		}
		if answered%50 == 0 && !im.quiet(t, p) {
			t.Fatal("more messages than keys are on their way")
		}
		i := random.IntN(len(waiting))
		key := waiting[i].Header.Get("message-key")
		onWay[key] = false
		if done[key]++; done[key] == n/keys {
			unfinished--
		}
		respond(t, waiting[i], stored)
		waiting = append(waiting[:i], waiting[i+1:]...)
	}
	for i, err := range <-answers {
		if err != nil {
			t.Errorf("message %d: %v", i, err)
		}
	}
}

// Messages without a key do not wait for each other, up to the window.
func TestKeylessMessagesLeaveTogether(t *testing.T) {
	im := newImpostor(t)
	p := open(t, nats.Config{})
	answers := make(chan []error, 1)
	go func() { answers <- p.Publish(timely(t), im.messages(1001, 0)) }()
	waiting := make([]*client.Msg, 1000)
	for i := range waiting {
		waiting[i] = im.next(t)
	}
	if !im.quiet(t, p) {
		t.Error("more than the window is on its way")
	}
	for _, m := range waiting {
		respond(t, m, stored)
	}
	respond(t, im.next(t), stored)
	for i, err := range <-answers {
		if err != nil {
			t.Errorf("message %d: %v", i, err)
		}
	}
}

// A refused message stops its key and no other key.
func TestRefusedMessageStopsItsKey(t *testing.T) {
	im := newImpostor(t)
	p := open(t, nats.Config{})
	answers := make(chan []error, 1)
	go func() { answers <- p.Publish(timely(t), im.messages(6, 2)) }()
	for range 4 {
		m := im.next(t)
		if m.Header.Get("message-id") == "0" {
			respond(t, m, `{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 7"},"stream":"S","seq":0}`)
		} else {
			respond(t, m, stored)
		}
	}
	got := <-answers
	expect(t, got, publisher.Refused, publisher.Accepted, publisher.NotAttempted, publisher.Accepted,
		publisher.NotAttempted,
		publisher.Accepted)
	if !im.quiet(t, p) {
		t.Error("a message was sent after a refused one of its key")
	}
}

// An answer that is not an acknowledgement is not taken for one, and a real one may still come.
func TestStrangersDoNotAcknowledge(t *testing.T) {
	im := newImpostor(t)
	p := open(t, nats.Config{})
	ctx, cancel := context.WithCancel(timely(t))
	answers := make(chan []error, 1)
	go func() { answers <- p.Publish(ctx, im.messages(4, 4)) }()
	for range 4 {
		m := im.next(t)
		for _, body := range []string{"", "ok", "{}", `{"stream":""}`} {
			respond(t, m, body)
		}
		if m.Header.Get("message-id") != "3" {
			respond(t, m, stored)
		}
	}
	// The last message is not answered. The others are answered, because their answers came before.
	if !im.quiet(t, p) {
		t.Error("a message came twice")
	}
	cancel()
	expect(t, <-answers, publisher.Accepted, publisher.Accepted, publisher.Accepted, publisher.Ambiguous)
}

// Two streams of different accounts may acknowledge one message. The second answer may come when the inbox serves
// another call.
func TestLateAnswersBelongToTheirCall(t *testing.T) {
	im := newImpostor(t)
	p := open(t, nats.Config{})
	answers := make(chan []error, 1)
	publish := func(ctx context.Context) { answers <- p.Publish(ctx, im.messages(1, 1)) }
	go publish(timely(t))
	first := im.next(t)
	respond(t, first, stored)
	expect(t, <-answers, publisher.Accepted)

	ctx, cancel := context.WithCancelCause(timely(t))
	go publish(ctx)
	second := im.next(t)
	if second.Reply == first.Reply {
		t.Fatal("two messages have one reply subject")
	}
	respond(t, first, stored)
	if !im.quiet(t, p) {
		t.Error("a message came twice")
	}
	ended := errors.New("the owner is gone")
	cancel(ended)
	got := <-answers
	expect(t, got, publisher.Ambiguous)
	if !errors.Is(got[0], ended) {
		t.Errorf("%v does not say why", got[0])
	}
}
