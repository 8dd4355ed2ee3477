package publishertest

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A journal publishes as the relay does, checks every answer against the contract, and at the end compares what arrived
// with the answers. Several goroutines may publish. A failure that they find is reported and does not end the test.
type journal struct {
	t *testing.T
	h receiver
	p publisher.Publisher

	mu      sync.Mutex
	entries map[string]*entry // by message id
}

// An entry is what is known of one message.
type entry struct {
	message  publisher.Message
	number   int // position in order of first publishing
	accepted int
	// unknown is the number of answers that are ambiguous or republished. The message may have arrived that many times
	// without being accepted.
	unknown int
}

// newJournal opens a new publisher on the network and closes it when the test ends.
func newJournal(t *testing.T, h Harness, network *Network) *journal {
	t.Helper()
	return newJournalOf(t, h.Open(t, network), h, network)
}

// A receiver reads topics as described in [Harness].
type receiver interface {
	Received(t *testing.T, topic string, n int) []publisher.Message
}

// newJournalOf returns a journal for the publisher, which it closes when the test ends.
func newJournalOf(t *testing.T, p publisher.Publisher, h receiver, network *Network) *journal {
	t.Helper()
	t.Cleanup(func() {
		network.Restore()
		_ = p.Close()
	})
	return &journal{t: t, h: h, p: p, entries: map[string]*entry{}}
}

// publish makes one call of Publish. It passes copies of the messages, which must come back unchanged and are then
// overwritten, because the publisher must not keep any part of them.
func (j *journal) publish(ctx context.Context, messages []publisher.Message) []error {
	j.t.Helper()
	j.remember(messages)
	lent := clone(messages)
	answers := j.p.Publish(ctx, lent)
	if !reflect.DeepEqual(lent, messages) {
		j.t.Error("Publish changed the caller's messages")
	}
	for i := range lent {
		overwrite(lent[i].Key)
		overwrite(lent[i].Payload)
	}
	if len(answers) != len(messages) {
		j.t.Errorf("%d answers for %d messages", len(answers), len(messages))
		return slices.Repeat([]error{publisher.ErrNotAttempted}, len(messages))
	}
	j.checkPrefix(messages, answers)
	j.checkFates(messages, answers)
	j.record(messages, answers)
	return answers
}

// accept publishes in calls of at most a thousand messages. All of them must be accepted at once.
func (j *journal) accept(messages []publisher.Message) {
	j.t.Helper()
	for call := range slices.Chunk(messages, 1000) {
		ctx, cancel := context.WithTimeout(j.t.Context(), patience)
		expect(j.t, j.publish(ctx, call), publisher.Accepted)
		cancel()
	}
}

// persist publishes until every message is accepted. Each key goes on from its first message that was not accepted.
func (j *journal) persist(messages []publisher.Message) {
	j.t.Helper()
	ctx, cancel := context.WithTimeout(j.t.Context(), patience)
	defer cancel()
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for rest := messages; len(rest) > 0; {
		call := rest[:min(len(rest), 1000)]
		answers := j.publish(ctx, call)
		expect(j.t, answers, publisher.Accepted, publisher.NotAttempted, publisher.Unavailable, publisher.Ambiguous)
		left := notAccepted(call, answers)
		if len(left) == 0 {
			rest = rest[len(call):]
			continue
		}
		rest = append(left, rest[len(call):]...)
		select {
		case <-retry.C:
		case <-ctx.Done():
			j.t.Fatalf("%d messages still not accepted after %v; the first answer: %v", len(rest), patience,
				firstError(answers))
		}
	}
}

// compare reads the topics and reports every message that is missing, unknown, changed, out of the order of its key, or
// present more often than its answers allow.
func (j *journal) compare(topics ...string) {
	j.t.Helper()
	for _, topic := range topics {
		expected := 0
		for _, e := range j.entries {
			if e.message.Topic == topic && e.accepted > 0 {
				expected++
			}
		}
		j.compareWith(topic, j.h.Received(j.t, topic, expected))
	}
}

// mostChanged is how many of the messages of a topic that arrived changed are described: whatever changes one changes
// most.
const mostChanged = 3

func (j *journal) compareWith(topic string, received []publisher.Message) {
	j.t.Helper()
	seen, last, changed := map[string]int{}, map[string]int{}, 0
	for i := range received {
		r := &received[i]
		e := j.entries[r.ID]
		if e == nil || e.message.Topic != topic {
			j.t.Errorf("%s holds message %q, which was not sent there", topic, r.ID)
			continue
		}
		if seen[r.ID]++; seen[r.ID] > 1 {
			continue
		}
		if different := differences(&e.message, r); len(different) > 0 {
			if changed++; changed <= mostChanged {
				j.t.Errorf("message %d arrived with another %s", e.number, strings.Join(different, ", and "))
			}
		}
		if key := string(e.message.Key); e.message.Key != nil {
			if e.number < last[key] {
				j.t.Errorf("key %q: message %d arrived first after message %d", key, e.number, last[key])
			}
			last[key] = e.number
		}
	}
	if changed > mostChanged {
		j.t.Errorf("messages of %s that arrived changed: %d; the first %d are above", topic, changed, mostChanged)
	}
	for id, e := range j.entries {
		switch n := seen[id]; {
		case e.message.Topic != topic:
		case n == 0 && e.accepted > 0:
			j.t.Errorf("message %d (key %q) was accepted and is not in %s", e.number, e.message.Key, topic)
		case n > e.accepted+e.unknown:
			j.t.Errorf("message %d (key %q) is in %s %d times; answers: accepted %d, ambiguous or republished %d",
				e.number, e.message.Key, topic, n, e.accepted, e.unknown)
		}
	}
}

func (j *journal) remember(messages []publisher.Message) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range messages {
		if _, known := j.entries[messages[i].ID]; !known {
			j.entries[messages[i].ID] = &entry{message: messages[i], number: len(j.entries) + 1}
		}
	}
}

func (j *journal) record(messages []publisher.Message, answers []error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range messages {
		e := j.entries[messages[i].ID]
		if duplicate, ok := errors.AsType[*publisher.Duplicate](answers[i]); ok && e.accepted+e.unknown == 0 {
			j.t.Errorf("message %d counts as a duplicate and was not sent before: %v", e.number, duplicate)
		}
		if publisher.Republished(answers[i]) {
			e.unknown++
		}
		switch publisher.ClassOf(answers[i]) {
		case publisher.Accepted:
			e.accepted++
		case publisher.Ambiguous:
			e.unknown++
		default:
		}
	}
}

// checkPrefix reports keys whose accepted messages are not a prefix, and answers without a class.
func (j *journal) checkPrefix(messages []publisher.Message, answers []error) {
	j.t.Helper()
	stopped := map[string]publisher.Class{}
	for i := range messages {
		class := publisher.ClassOf(answers[i])
		if e, ok := errors.AsType[*publisher.Error](answers[i]); class != publisher.Accepted &&
			(!ok || e.Short == "" || e.Err == nil) {
			j.t.Errorf("answer %d is not a complete *publisher.Error: %v", i, answers[i])
		}
		if messages[i].Key == nil {
			continue
		}
		key := string(messages[i].Key)
		if before, ok := stopped[key]; !ok {
			if class != publisher.Accepted {
				stopped[key] = class
			}
		} else if !mayFollow(before, class) {
			j.t.Errorf("key %q: answer %d is %v after one that is %v", key, i, class, before)
		}
	}
}

// mayFollow reports whether class is a possible answer after an earlier one of the key. Messages sent together may
// share an answer. Nothing may be sent after a message that is known to have failed.
func mayFollow(before, class publisher.Class) bool {
	switch class {
	case publisher.NotAttempted:
		return true
	case publisher.Topology, publisher.Ambiguous:
		return before == class
	case publisher.Unavailable:
		return before == class || before == publisher.Ambiguous
	default:
		return false
	}
}
