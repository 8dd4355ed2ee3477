package publishertest

import (
	"context"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// closing is how long Close may take: about a second for the broker.
const closing = 3 * time.Second

var closeTrials = []trial{
	{"closes while batches flow", closeInFlow},
	{"closes unused, twice, and answers after that", closeAndAfter},
	{"closes without an error when nothing comes back, and when the connection breaks meanwhile", closeBroken},
}

func closeInFlow(t *testing.T, h Harness) {
	j := newJournal(t, h, NewNetwork())
	topic := h.Topic(t)
	ended := make(chan []error, 1)
	go func() {
		for {
			answers := j.publish(t.Context(), messages(200, 20, topic))
			if firstError(answers) != nil || t.Context().Err() != nil {
				ended <- answers
				return
			}
		}
	}()
	h.Received(t, topic, 500)
	_ = j.close()
	expect(t, await(t, ended), publisher.Accepted, publisher.Ambiguous, publisher.Unavailable, publisher.NotAttempted)
	j.compare(topic)
}

func closeAndAfter(t *testing.T, h Harness) {
	j := newJournal(t, h, NewNetwork())
	topic := h.Topic(t)
	for range 2 {
		_ = j.close()
		answers := within(t, promptly, "Publish after Close", func() []error {
			return j.publish(t.Context(), messages(10, 3, topic))
		})
		expect(t, answers, publisher.Unavailable)
	}
	if j.p.Ping(t.Context()) == nil {
		t.Error("a closed publisher says that it can be used")
	}

	used := newJournal(t, h, NewNetwork())
	all := messages(100, 10, topic)
	used.accept(all)
	if err := used.close(); err != nil {
		t.Errorf("close: %v", err)
	}
	expect(t, used.publish(t.Context(), messages(10, 3, topic)), publisher.Unavailable)
	used.compare(topic)
}

// In closeBroken all answers have arrived, so nothing is lost with the connection, and Close must not report an error.
func closeBroken(t *testing.T, h Harness) {
	for name, disturb := range map[string]func(*Network){
		"muted": (*Network).Mute, "frozen": (*Network).Freeze, "cut": (*Network).Cut,
		"cut while it says goodbye": func(n *Network) { n.CutAfter(1) },
		"muted, then cut": func(n *Network) {
			n.Mute()
			n.CutAfter(1)
		},
	} {
		network := NewNetwork()
		j := newJournal(t, h, network)
		j.accept(messages(10, 3, h.Topic(t)))
		disturb(network)
		if err := j.close(); err != nil {
			t.Errorf("%s: close: %v", name, err)
		}
	}
}

func (j *journal) close() error {
	j.t.Helper()
	return within(j.t, closing, "Close", j.p.Close)
}

// background publishes in a separate goroutine until ctx ends, and delivers the answers.
func (j *journal) background(ctx context.Context, messages []publisher.Message) <-chan []error {
	answers := make(chan []error, 1)
	go func() { answers <- j.publish(ctx, messages) }()
	return answers
}

// await returns the answers of a call of Publish that should end by now.
func await(t *testing.T, answers <-chan []error) []error {
	t.Helper()
	return within(t, promptly, "a call that should end", func() []error { return <-answers })
}
