package nats_test

import (
	"crypto/rand"
	"fmt"
	"slices"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// hotRows returns n messages that use the given number of keys in turn.
func hotRows(topic string, n, keys int) []publisher.Message {
	all := make([]publisher.Message, n)
	for i := range all {
		id := rand.Text()
		all[i] = publisher.Message{
			ID: id, DedupID: id, Topic: topic, Key: fmt.Append(nil, "key", i%keys),
			Payload: fmt.Append(nil, i),
		}
	}
	return all
}

// inOrder checks that the stream holds each message once, and those of each key in order.
func inOrder(t *testing.T, s jetstream.Stream, want []publisher.Message) {
	t.Helper()
	got := read(t, s, len(want))
	byKey := func(messages []publisher.Message) map[string][]string {
		ids := map[string][]string{}
		for i := range messages {
			ids[string(messages[i].Key)] = append(ids[string(messages[i].Key)], messages[i].ID)
		}
		return ids
	}
	held := byKey(got)
	for key, ids := range byKey(want) {
		if !slices.Equal(held[key], ids) {
			t.Errorf("of key %s the stream holds %d messages, want %d, or another order", key, len(held[key]), len(ids))
		}
	}
	if len(got) != len(want) {
		t.Errorf("the stream holds %d messages, want %d", len(got), len(want))
	}
}
