package publishertest

import (
	"context"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

var silenceTrials = []trial{
	{"returns in time while nothing gets through", frozenCalls},
	{"returns in time while no answer gets back", mutedCalls},
	{"returns when a call is cancelled that waits for answers", cancelledWait},
	{"closes while a call waits for answers", func(t *testing.T, h Harness) {
		closeInSilence(t, h, (*Network).Mute)
	}},
	{"closes while nothing gets through", func(t *testing.T, h Harness) {
		closeInSilence(t, h, (*Network).Freeze)
	}},
}

// slack is how much later than its deadline a call may return on a machine that is busy with other tests.
const slack = 10 * time.Second

// silence is the deadline of calls that get no answer.
const silence = 700 * time.Millisecond

func frozenCalls(t *testing.T, h Harness) {
	network := NewNetwork()
	j := newJournal(t, h, network)
	topic := h.Topic(t)
	j.accept(messages(20, 4, topic))
	all := messages(200, 10, topic)
	network.Freeze()
	for range 2 { // first a connection that was answered before, then one that is known to be silent
		expect(t, j.unanswered(all), publisher.NotAttempted, publisher.Unavailable, publisher.Ambiguous)
		j.pingFails(silence)
	}
	network.Restore()
	j.persist(all)
	j.pingSucceeds()
	j.compare(topic)
}

func mutedCalls(t *testing.T, h Harness) {
	network := NewNetwork()
	j := newJournal(t, h, network)
	topic := h.Topic(t)
	j.accept(messages(20, 4, topic))
	all := messages(200, 10, topic)
	network.Mute()
	answers := j.unanswered(all)
	expectSome(t, answers, publisher.Ambiguous)
	expect(t, answers, publisher.NotAttempted, publisher.Ambiguous)
	expect(t, j.unanswered(all), publisher.NotAttempted, publisher.Unavailable, publisher.Ambiguous)
	network.Restore()
	j.persist(all)
	j.compare(topic)
}

// unanswered makes one call with a deadline that no answer can meet.
func (j *journal) unanswered(messages []publisher.Message) []error {
	j.t.Helper()
	ctx, cancel := context.WithTimeout(j.t.Context(), silence)
	defer cancel()
	return within(j.t, silence+slack, "a call without answers", func() []error { return j.publish(ctx, messages) })
}

func cancelledWait(t *testing.T, h Harness) {
	network := NewNetwork()
	j := newJournal(t, h, network)
	topic := h.Topic(t)
	j.accept(messages(20, 4, topic))
	h.Received(t, topic, 20)
	all := messages(200, 10, topic)
	network.Mute()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	call := j.background(ctx, all)
	h.Received(t, topic, 21)
	cancel()
	answers := within(t, slack, "a cancelled call", func() []error { return <-call })
	expect(t, answers, publisher.NotAttempted, publisher.Ambiguous)
	expectSome(t, answers, publisher.Ambiguous)
	network.Restore()
	j.persist(all)
	j.compare(topic)
}

func closeInSilence(t *testing.T, h Harness, hush func(*Network)) {
	network := NewNetwork()
	j := newJournal(t, h, network)
	topic := h.Topic(t)
	j.accept(messages(20, 4, topic))
	hush(network)
	call := j.background(t.Context(), messages(200, 10, topic))
	network.AwaitWrite(t, 1)
	_ = j.close()
	expect(t, await(t, call), publisher.NotAttempted, publisher.Unavailable, publisher.Ambiguous)
	expect(t, j.publish(t.Context(), messages(5, 2, topic)), publisher.Unavailable)
	network.Restore()
	j.compare(topic)
}
