package publishertest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A Broker is a broker in memory for tests of the relay. It holds every message that has arrived, and misbehaves as
// scripted. It uses no network and no goroutine, and may be used inside a testing/synctest bubble. It is safe for
// concurrent use, also while messages are being published to it.
//
// Unless scripted otherwise, every topic exists and every message is accepted.
type Broker struct {
	mu       sync.Mutex
	changed  chan struct{} // closed and replaced when anything changes
	received []publisher.Message
	script
	partitions map[string]int // number of partitions by topic; 0 for a topic without partitions
	tries      map[string]int // number of tries by message id
	waiting    int            // number of calls that wait for Release or Speak
	inFlight   map[string]int // number of calls by ordering key
	overlaps   []string
	group      func(topic string) string
}

// NewBroker returns a broker that accepts everything.
func NewBroker() *Broker {
	return &Broker{
		changed: make(chan struct{}), script: newScript(), partitions: map[string]int{}, tries: map[string]int{},
		inFlight: map[string]int{}, group: func(string) string { return "" },
	}
}

// Received returns the messages that have arrived in the topic, in order of arrival.
func (b *Broker) Received(topic string) []publisher.Message {
	return slices.DeleteFunc(b.All(), func(m publisher.Message) bool { return m.Topic != topic })
}

// All returns the messages that have arrived in any topic, in order of arrival.
func (b *Broker) All() []publisher.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.received)
}

// Tries returns how often the message was sent to the broker, whatever the outcome.
func (b *Broker) Tries(id string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tries[id]
}

// Overlaps returns the keys that were in two calls at the same time, which the relay must never do.
func (b *Broker) Overlaps() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.overlaps)
}

// Await waits until at least n messages have arrived, including duplicates, and returns all of them. It fails the test
// after a minute.
func (b *Broker) Await(t testing.TB, n int) []publisher.Message {
	t.Helper()
	b.await(t, "messages", n, func() int { return len(b.received) })
	return b.All()
}

// AwaitTries waits until the message was sent at least n times. It fails the test after a minute.
func (b *Broker) AwaitTries(t testing.TB, id string, n int) {
	t.Helper()
	b.await(t, "tries of "+id, n, func() int { return b.tries[id] })
}

// AwaitHeld waits until at least n calls wait for Release or Speak. It fails the test after a minute.
func (b *Broker) AwaitHeld(t testing.TB, n int) {
	t.Helper()
	b.await(t, "held calls", n, func() int { return b.waiting })
}

func (b *Broker) await(t testing.TB, what string, n int, count func() int) {
	t.Helper()
	late := time.NewTimer(time.Minute)
	defer late.Stop()
	for {
		b.mu.Lock()
		have, changed := count(), b.changed
		b.mu.Unlock()
		if have >= n {
			return
		}
		select {
		case <-changed:
		case <-late.C:
			t.Fatalf("%d %s after a minute, not %d", have, what, n)
		}
	}
}

// take answers for the messages of one call.
func (b *Broker) take(ctx context.Context, messages []publisher.Message) []error {
	answers := make([]error, len(messages))
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range messages {
		b.tries[messages[i].ID]++
	}
	b.wake()
	if !b.pause(ctx) {
		return fill(answers, publisher.AmbiguousError("no answer",
			"the call ended before the broker answered: %w", ctx.Err()))
	}
	if b.down {
		return fill(answers, publisher.UnavailableError(publisher.ScopeDestination, "broker down",
			"the broker is down"))
	}
	if slices.ContainsFunc(messages, func(m publisher.Message) bool { return b.crashes[m.ID] }) {
		return fill(answers, publisher.AmbiguousError("connection lost",
			"the connection ended before the broker answered"))
	}
	b.answer(ctx, messages, answers)
	b.wake()
	return answers
}

// pause waits while the broker is held, and for its delay. b.mu is held, but released during the wait. pause reports
// whether the call goes on.
func (b *Broker) pause(ctx context.Context) bool {
	b.waiting++
	defer func() { b.waiting-- }()
	if delay := b.delay; delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		b.mu.Unlock()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		b.mu.Lock()
	}
	b.waitWhile(ctx, func() bool { return b.held })
	return ctx.Err() == nil
}

// waitWhile waits until the condition no longer holds or ctx has ended. The condition is evaluated with b.mu held. b.mu
// is held, but released during the wait.
func (b *Broker) waitWhile(ctx context.Context, condition func() bool) {
	for condition() && ctx.Err() == nil {
		changed := b.changed
		b.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		b.mu.Lock()
	}
}

// Apart makes keys differ if group returns different values for their topics, for example the keys of several
// destinations, which do not wait for each other. It must be called before anything is published.
func (b *Broker) Apart(group func(topic string) string) { b.group = group }

// enter notes the ordering keys of a call. The returned leave notes that the call has ended.
func (b *Broker) enter(messages []publisher.Message) (leave func()) {
	keys := map[string]bool{}
	for i := range messages {
		if messages[i].Key != nil {
			keys[b.group(messages[i].Topic)+string(messages[i].Key)] = true
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for key := range keys {
		if b.inFlight[key]++; b.inFlight[key] > 1 {
			b.overlaps = append(b.overlaps, key)
		}
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for key := range keys {
			if b.inFlight[key]--; b.inFlight[key] == 0 {
				delete(b.inFlight, key)
			}
		}
	}
}

// wake wakes all goroutines that wait for a change. b.mu is held.
func (b *Broker) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

func fill(answers []error, err error) []error {
	for i := range answers {
		answers[i] = err
	}
	return answers
}
