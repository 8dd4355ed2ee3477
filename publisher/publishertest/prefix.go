package publishertest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

var prefixTrials = []trial{
	{"a reserved header stops its own key only", func(t *testing.T, h Harness) {
		for _, name := range []string{"Nats-Msg-Id", "nats-Anything", "CC", "BCC", "message-id", "Message-Key"} {
			poison(t, h, func(m *publisher.Message) {
				m.Headers = []publisher.Header{{Name: "fine", Value: "1"}, {Name: name, Value: "x"}}
			})
		}
	}},
	{"a failed message stops its key in other topics too", prefixOverTopics},
	{"a failed message without a key stops nothing", poisonWithoutKey},
	{"a message that no retry can help waits for those before it", poisonAfter},
}

var illegalTrials = []trial{
	{"an illegal topic stops its own key only", func(t *testing.T, h Harness) {
		for _, name := range h.Illegal() {
			poison(t, h, func(m *publisher.Message) { m.Topic = name })
		}
	}},
}

var sizeTrials = []trial{{"a message that is too large stops its own key only", tooLarge}}

var topologyTrials = []trial{
	{"an unknown topic stops its own keys only", unknownTopic},
	{"an unknown topic is used once it exists", topicCreatedLater},
	{"unknown topics have fates of their own", unknownFates},
}

// poisoned returns messages of four keys and one without a key. The caller spoils the third message.
func poisoned(topic string) []publisher.Message {
	all := []publisher.Message{
		message(topic, "a"), message(topic, "b"), message(topic, "a"), message(topic, "c"),
		message(topic, "b"), message(topic, "a"), message(topic, ""), message(topic, "d"), message(topic, "a"),
	}
	all[7].Key = nil
	return all
}

// poison publishes a message that no retry can help, among others, and then the messages that wait for it.
func poison(t *testing.T, h Harness, spoil func(*publisher.Message)) {
	t.Helper()
	j := newJournal(t, h, NewNetwork())
	topic := h.Topic(t)
	all := poisoned(topic)
	spoil(&all[2])
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const ok, after = publisher.Accepted, publisher.NotAttempted
	expectEach(t, j.publish(ctx, all), ok, ok, publisher.Permanent, ok, ok, after, ok, ok, after)
	j.accept([]publisher.Message{all[5], all[8]})
	j.compare(topic)
}

// A broker may end the connection because of a message that is too large. Its neighbours then have no answer either.
// When the message is sent alone, the answer must distinguish it from an outage.
func tooLarge(t *testing.T, h Harness) {
	j := newJournal(t, h, NewNetwork())
	topic := h.Topic(t)
	j.accept(messages(10, 2, topic))
	all := poisoned(topic)
	large := &all[2]
	large.Payload = noise(h.TooLarge())
	large.Type = "application/octet-stream"
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	answers := j.publish(ctx, all)
	if publisher.ClassOf(answers[2]) != publisher.Permanent {
		expectEach(t, answers[2:3], publisher.Ambiguous)
		pause := time.NewTicker(50 * time.Millisecond)
		defer pause.Stop()
		alone := j.publish(ctx, all[2:3])
		for publisher.ClassOf(alone[0]) == publisher.Unavailable && ctx.Err() == nil {
			<-pause.C
			alone = j.publish(ctx, all[2:3])
		}
		expect(t, alone, publisher.Permanent)
		answers[2] = alone[0]
	}
	for i, err := range answers {
		if i != 2 {
			expect(t, []error{err}, publisher.Accepted, publisher.NotAttempted, publisher.Unavailable,
				publisher.Ambiguous)
		}
	}
	expect(t, []error{answers[5], answers[8]}, publisher.NotAttempted)
	rest := notAccepted(all, answers)
	rest = slices.DeleteFunc(rest, func(m publisher.Message) bool { return m.ID == large.ID })
	j.persist(rest)
	j.compare(topic)
}

// One key over two topics, and the first topic fails: no message of the key may get into the second.
func prefixOverTopics(t *testing.T, h Harness) {
	j := newJournal(t, h, NewNetwork())
	first, second := h.Topic(t), h.Topic(t)
	all := []publisher.Message{
		message(first, "a"), message(second, "b"), message(second, "a"), message(first, "a"), message(second, "b"),
	}
	want := []publisher.Class{
		publisher.Permanent, publisher.Accepted, publisher.NotAttempted, publisher.NotAttempted,
		publisher.Accepted,
	}
	all[0].Headers = []publisher.Header{{Name: "CC", Value: "x"}}
	if unknown := h.Unknown(t); unknown != "" {
		all[0].Topic, all[0].Headers, want[0] = unknown, nil, publisher.Topology
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	expectEach(t, j.publish(ctx, all), want...)
	j.compare(first, second)
}

// Messages without a key do not share a key, and an empty key is a key.
func poisonWithoutKey(t *testing.T, h Harness) {
	j := newJournal(t, h, NewNetwork())
	topic := h.Topic(t)
	all := messages(8, 1, topic)
	for i := range all {
		all[i].Key = nil
	}
	all[1].Key, all[4].Key, all[6].Key = []byte{}, []byte{}, []byte{}
	for _, i := range []int{0, 3, 4} {
		all[i].Headers = []publisher.Header{{Name: "BCC", Value: "x"}}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const ok, never = publisher.Accepted, publisher.Permanent
	expectEach(t, j.publish(ctx, all), never, ok, ok, never, never, ok, publisher.NotAttempted, ok)
	j.compare(topic)
}

// A publisher's own finding about a message must not be reported before the message's turn. Otherwise the relay would
// fail the row while an older one of the key still waits.
func poisonAfter(t *testing.T, h Harness) {
	j := newJournal(t, h, NewNetwork())
	topic := h.Topic(t)
	all := []publisher.Message{
		message(topic, "a"), message(topic, "b"), message(topic, "a"), message(topic, "a"), message(topic, "b"),
		message(topic, "a"),
	}
	for _, i := range []int{0, 2, 4, 5} {
		all[i].Headers = []publisher.Header{{Name: "CC", Value: "x"}}
	}
	want := []publisher.Class{
		publisher.Permanent, publisher.Accepted, publisher.NotAttempted, publisher.NotAttempted, publisher.Permanent,
		publisher.NotAttempted,
	}
	if unknown := h.Unknown(t); unknown != "" {
		all[0].Topic, all[0].Headers, want[0] = unknown, nil, publisher.Topology
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	expectEach(t, j.publish(ctx, all), want...)
	j.compare(topic)
}

func unknownTopic(t *testing.T, h Harness) {
	j := newJournal(t, h, NewNetwork())
	topic, unknown := h.Topic(t), h.Unknown(t)
	stuck := []publisher.Message{
		message(unknown, "stuck-0"), message(unknown, "stuck-1"), message(unknown, "stuck-0"),
		message(unknown, "stuck-1"),
	}
	for range 2 { // the second call may know more than the first
		flowing := messages(200, 20, topic)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		answers := within(t, promptly, "a call with an unknown topic", func() []error {
			return j.publish(ctx, slices.Concat(stuck[:2], flowing, stuck[2:]))
		})
		cancel()
		expect(t, answers[:2], publisher.Topology)
		for _, err := range answers[:2] {
			if scope := publisher.ScopeOf(err); scope != publisher.ScopeTopic {
				t.Errorf("the scope of an unknown topic is %d, not ScopeTopic", scope)
			}
			if !strings.Contains(err.Error(), unknown) {
				t.Errorf("the answer does not name the topic %s: %v", unknown, err)
			}
		}
		expect(t, answers[2:202], publisher.Accepted)
		expect(t, answers[202:], publisher.NotAttempted)
	}
	j.compare(topic)
}

func topicCreatedLater(t *testing.T, h Harness) {
	j := newJournal(t, h, NewNetwork())
	topic, later := h.Topic(t), h.Unknown(t)
	all := messages(40, 4, topic, later)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	answers := j.publish(ctx, all)
	expectSome(t, answers, publisher.Topology)
	h.Create(t, later)
	retry := time.NewTicker(50 * time.Millisecond)
	defer retry.Stop()
	for all = notAccepted(all, answers); len(all) > 0; all = notAccepted(all, answers) {
		select {
		case <-retry.C:
		case <-ctx.Done():
			t.Fatalf("the topic exists and is still not used: %v", firstError(answers))
		}
		answers = j.publish(ctx, all)
		expect(t, answers, publisher.Accepted, publisher.NotAttempted, publisher.Topology, publisher.Unavailable)
	}
	j.compare(topic, later)
}
