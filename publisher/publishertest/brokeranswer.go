package publishertest

import (
	"context"
	"slices"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// answer answers for the messages of a call that has arrived. Messages of silent topics, and later messages of their
// keys, are answered last. b.mu is held, but released while a topic is silent.
func (b *Broker) answer(ctx context.Context, messages []publisher.Message, answers []error) {
	// Both maps are by key: blocked holds keys with a failed message, after keys with an unanswered one.
	blocked, after := map[string]bool{}, map[string]bool{}
	var unanswered []int
	for i := range messages {
		m := &messages[i]
		keyed := m.Key != nil
		switch {
		case keyed && blocked[string(m.Key)], !b.silent[m.Topic] && !(keyed && after[string(m.Key)]):
			answers[i] = b.try(m, blocked)
			continue
		case keyed:
			after[string(m.Key)] = true
		}
		unanswered = append(unanswered, i)
	}
	if len(unanswered) == 0 {
		return
	}
	b.waiting++
	b.wake()
	b.waitWhile(ctx, func() bool {
		return slices.ContainsFunc(unanswered, func(i int) bool { return b.silent[messages[i].Topic] })
	})
	b.waiting--
	for _, i := range unanswered {
		answers[i] = b.try(&messages[i], blocked)
	}
}

// try answers for one message, and blocks its key if the message fails. b.mu is held.
func (b *Broker) try(m *publisher.Message, blocked map[string]bool) error {
	if m.Key != nil && blocked[string(m.Key)] {
		return publisher.ErrNotAttempted
	}
	stored, err := b.judge(m)
	if stored {
		b.received = append(b.received, clone([]publisher.Message{*m})...)
	}
	if m.Key != nil && publisher.ClassOf(err) != publisher.Accepted {
		blocked[string(m.Key)] = true
	}
	return err
}
