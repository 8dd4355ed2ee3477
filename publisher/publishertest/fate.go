package publishertest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// checkFates checks that the fates that answers name agree with their scopes.
func (j *journal) checkFates(messages []publisher.Message, answers []error) {
	j.t.Helper()
	for i, err := range answers {
		scope := publisher.ScopeOf(err)
		fate, named := publisher.FateOf(err, messages[i].Topic)
		whole := fate == publisher.Fate{}
		switch publisher.ClassOf(err) {
		case publisher.Topology, publisher.Unavailable, publisher.Ambiguous:
		default:
			if named {
				j.t.Errorf("an answer that concerns the message alone names the %v: %v", fate, err)
			}
			continue
		}
		if named != (scope != publisher.ScopeMessage || !whole) || whole != (fate.Name == "") {
			j.t.Errorf("an answer names nothing, or something without a name, %v: %v", fate, err)
		}
		if named && whole != (scope == publisher.ScopeDestination) {
			j.t.Errorf("an answer with scope %d names the %v: %v", scope, fate, err)
		}
	}
}

// Each missing topic is in trouble on its own. Each call names it in the same way, and names no other topic with it.
func unknownFates(t *testing.T, h Harness) {
	j := newJournal(t, h, NewNetwork())
	topic, one, two := h.Topic(t), h.Unknown(t), h.Unknown(t)
	var first []string
	for number := range 3 {
		var all []publisher.Message
		for i, name := range []string{one, topic, two, one, topic, two} {
			all = append(all, message(name, fmt.Sprint("key-", number, "-", i)))
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		answers := j.publish(ctx, all)
		cancel()
		const ok, missing = publisher.Accepted, publisher.Topology
		expectEach(t, answers, missing, ok, missing, missing, ok, missing)
		names := fates(all, answers)
		if names[0] == names[2] || names[0] != names[3] || names[2] != names[5] {
			t.Errorf("two missing topics have the fates %q", names)
		}
		if !strings.Contains(names[0], one) || !strings.Contains(names[2], two) {
			t.Errorf("the fates %q do not name the topics %s and %s", names, one, two)
		}
		if first == nil {
			first = names
		}
		if !slices.Equal(names, first) {
			t.Errorf("in call %d the fates are %q, and were %q", number+1, names, first)
		}
	}
	j.compare(topic)
}

// fates returns the name of each answer's fate, or "" for none.
func fates(messages []publisher.Message, answers []error) []string {
	names := make([]string, len(answers))
	for i, err := range answers {
		if f, ok := publisher.FateOf(err, messages[i].Topic); ok {
			names[i] = f.String()
		}
	}
	return names
}
