package nats_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/nats"
)

// What a real stream answers, and what it holds afterwards.
func TestStream(t *testing.T) {
	js := broker(t)
	p := open(t, nats.Config{})
	publish := func(t *testing.T, messages ...publisher.Message) []error {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		return p.Publish(ctx, messages)
	}
	row := func(subject, key string, size int) publisher.Message {
		id := rand.Text()
		return publisher.Message{
			ID: id, DedupID: id, Topic: subject, Key: []byte(key),
			Payload: []byte(strings.Repeat("x", size)),
		}
	}

	t.Run("stores a message once", func(t *testing.T) {
		subject := harness{}.Unknown(t)
		s := stream(t, js, jetstream.StreamConfig{Subjects: []string{subject}})
		m := row(subject, "k", 10)
		expect(t, publish(t, m), publisher.Accepted)
		expect(t, publish(t, m), publisher.Accepted)
		expect(t, publish(t, m, row(subject, "k", 10), m), publisher.Accepted, publisher.Accepted, publisher.Accepted)
		if got := read(t, s, 2); len(got) != 2 || got[0].DedupID != m.DedupID {
			t.Errorf("the stream holds %d messages, want 2", len(got))
		}
	})

	t.Run("holds the subject of a full stream", func(t *testing.T) {
		subject := harness{}.Unknown(t)
		s := stream(t, js, jetstream.StreamConfig{Subjects: []string{subject}, MaxMsgs: 3, Discard: jetstream.DiscardNew})
		all := []publisher.Message{
			row(subject, "a", 1), row(subject, "b", 1), row(subject, "b", 1), row(subject, "b", 1),
			row(subject, "b", 1),
		}
		answers := publish(t, all...)
		expect(t, answers, publisher.Accepted, publisher.Accepted, publisher.Accepted, publisher.Unavailable,
			publisher.NotAttempted)
		if scope := publisher.ScopeOf(answers[3]); scope != publisher.ScopeTopic {
			t.Errorf("the scope is %d, not ScopeTopic", scope)
		}
		name := s.CachedInfo().Config.Name
		awaitFate(t, p, all[3], publisher.Fate{Kind: publisher.FateStream, Name: name})
		if err := s.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		expect(t, publish(t, all[3:]...), publisher.Accepted, publisher.Accepted)
	})

	t.Run("holds the subject that is full", func(t *testing.T) {
		subject := harness{}.Unknown(t)
		stream(t, js, jetstream.StreamConfig{
			Subjects: []string{subject + ".*"}, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew,
			DiscardNewPerSubject: true,
		})
		answers := publish(t, row(subject+".full", "a", 1), row(subject+".full", "b", 1), row(subject+".other", "c", 1))
		accepted := 0
		for _, err := range answers[:2] {
			if err == nil {
				accepted++
			} else {
				expect(t, []error{err}, publisher.Unavailable)
			}
		}
		if accepted != 1 {
			t.Errorf("%d messages were accepted, want 1", accepted)
		}
		expect(t, answers[2:], publisher.Accepted)
		awaitFate(t, p, row(subject+".full", "a", 1), publisher.Fate{Kind: publisher.FateTopic, Name: subject + ".full"})
	})

	t.Run("fails a message that is too large for the stream", func(t *testing.T) {
		subject := harness{}.Unknown(t)
		s := stream(t, js, jetstream.StreamConfig{Subjects: []string{subject}, MaxMsgSize: 1000})
		expect(t, publish(t, row(subject, "a", 10), row(subject, "a", 2000), row(subject, "a", 10), row(subject, "b", 10)),
			publisher.Accepted, publisher.Permanent, publisher.NotAttempted, publisher.Accepted)
		if got := read(t, s, 2); len(got) != 2 {
			t.Errorf("the stream holds %d messages, want 2", len(got))
		}
	})

	t.Run("fails headers that are too large", func(t *testing.T) {
		subject := harness{}.Unknown(t)
		stream(t, js, jetstream.StreamConfig{Subjects: []string{subject}})
		m := row(subject, "a", 10)
		m.Headers = []publisher.Header{{Name: "x", Value: strings.Repeat("x", 70_000)}}
		expect(t, publish(t, m), publisher.Permanent)
	})

	t.Run("holds the subject of a sealed stream", func(t *testing.T) {
		subject := harness{}.Unknown(t)
		s := stream(t, js, jetstream.StreamConfig{Subjects: []string{subject}})
		config := s.CachedInfo().Config
		config.Sealed = true
		if _, err := js.UpdateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		expect(t, publish(t, row(subject, "a", 10)), publisher.Topology)
		awaitFate(t, p, row(subject, "a", 10), publisher.Fate{Kind: publisher.FateStream, Name: config.Name})
	})

	t.Run("holds the subject that another stream takes", func(t *testing.T) {
		subject := harness{}.Unknown(t)
		expected := stream(t, js, jetstream.StreamConfig{Subjects: []string{subject + ".a"}})
		other := stream(t, js, jetstream.StreamConfig{Subjects: []string{subject + ".b"}})
		p := open(t, nats.Config{Stream: expected.CachedInfo().Config.Name})
		for range 2 {
			all := append(rows(subject+".a", 10), rows(subject+".b", 10)...)
			for i := range all {
				all[i].ID, all[i].DedupID = rand.Text(), rand.Text()
			}
			for i := range 10 {
				all[10+i].Key = []byte("other")
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			answers := p.Publish(ctx, all)
			for i, err := range answers[:10] {
				if err != nil {
					t.Errorf("message %d: %v", i, err)
				}
			}
			expect(t, answers[10:12], publisher.Topology, publisher.NotAttempted)
			if publisher.ScopeOf(answers[10]) != publisher.ScopeTopic {
				t.Errorf("%v reaches further than its topic", answers[10])
			}
			awaitFate(t, p, all[10], publisher.Fate{Kind: publisher.FateTopic, Name: subject + ".b"})
		}
		if got := read(t, expected, 20); len(got) != 20 {
			t.Errorf("the stream holds %d messages", len(got))
		}
		if got := read(t, other, 0); len(got) > 0 {
			t.Errorf("the other stream holds %d messages", len(got))
		}
	})

	t.Run("takes the longest subject", func(t *testing.T) {
		prefix := harness{}.Unknown(t)
		s := stream(t, js, jetstream.StreamConfig{Subjects: []string{prefix + ".>"}})
		longest := prefix + "." + strings.Repeat("x", 4000-1-len(prefix))
		expect(t, publish(t, row(longest, "a", 10), row(longest+"x", "b", 10)), publisher.Accepted, publisher.Permanent)
		if got := read(t, s, 1); got[0].Topic != longest {
			t.Errorf("it arrived on a subject of %d bytes", len(got[0].Topic))
		}
	})

	t.Run("keeps the order beyond the window", func(t *testing.T) {
		subject := harness{}.Unknown(t)
		s := stream(t, js, jetstream.StreamConfig{Subjects: []string{subject}})
		all := make([]publisher.Message, 5000)
		for i := range all {
			all[i] = row(subject, fmt.Sprint(i%1700), 10)
			if i%3 == 0 {
				all[i].Key = nil
			}
			all[i].Headers = []publisher.Header{{Name: "n", Value: fmt.Sprint(i)}}
		}
		for i, err := range publish(t, all...) {
			if err != nil {
				t.Fatalf("message %d: %v", i, err)
			}
		}
		last := map[string]int{}
		got := read(t, s, len(all))
		if len(got) != len(all) {
			t.Fatalf("the stream holds %d messages, want %d", len(got), len(all))
		}
		for i := range got {
			var n int
			value, _ := got[i].Header("n")
			if _, err := fmt.Sscan(value, &n); err != nil {
				t.Fatal(err)
			}
			if got[i].Key == nil {
				continue
			}
			if before, ok := last[string(got[i].Key)]; ok && before > n {
				t.Fatalf("of key %s message %d came after %d", got[i].Key, n, before)
			}
			last[string(got[i].Key)] = n
		}
	})
}

// expect reports an answer that does not have the class at its index.
func expect(t *testing.T, answers []error, classes ...publisher.Class) {
	t.Helper()
	if len(answers) != len(classes) {
		t.Fatalf("%d answers, want %d", len(answers), len(classes))
	}
	for i, err := range answers {
		if class := publisher.ClassOf(err); class != classes[i] {
			t.Errorf("answer %d is %v (%v), want %v", i, class, err, classes[i])
		}
	}
}
