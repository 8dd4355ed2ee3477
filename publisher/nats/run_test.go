package nats_test

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/nats"
)

// hotRows returns n messages that use the given number of keys in turn.
func hotRows(topic string, n, keys int) []publisher.Message {
	all := make([]publisher.Message, n)
	for i := range all {
		id := rand.Text()
		all[i] = publisher.Message{ID: id, DedupID: id, Topic: topic, Key: fmt.Append(nil, "key", i%keys), Payload: fmt.Append(nil, i)}
	}
	return all
}

// warm publishes to a subject until its stream is known to accept batches, and leaves the stream empty. It makes room after
// each round, since a slow server may answer that question only after more rounds than a small stream has room for.
func warm(t *testing.T, p *nats.Publisher, s jetstream.Stream, topic string) {
	t.Helper()
	for known := false; !known; {
		for i, err := range p.Publish(timely(t), hotRows(topic, 20, 1)) {
			if err != nil {
				t.Fatalf("message %d: %v", i, err)
			}
		}
		known = batches(t, s) > 0
		if err := s.Purge(timely(t)); err != nil {
			t.Fatal(err)
		}
	}
}

// batches returns how many of the stream's messages came in atomic batches.
func batches(t *testing.T, s jetstream.Stream) int {
	t.Helper()
	n := 0
	for _, m := range read(t, s, 0) {
		if _, ok := m.Header("Nats-Batch-Id"); ok {
			n++
		}
	}
	return n
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

func TestRuns(t *testing.T) {
	js := broker(t)
	p := open(t, nats.Config{})
	p.BatchFrom(16)
	atomic := func(t *testing.T, config jetstream.StreamConfig) (jetstream.Stream, string) {
		t.Helper()
		prefix := harness{}.Unknown(t)
		config.Subjects, config.AllowAtomicPublish = []string{prefix + ".*"}, true
		s := stream(t, js, config)
		warm(t, p, s, prefix+".a")
		return s, prefix
	}
	accepted := func(t *testing.T, messages []publisher.Message) {
		t.Helper()
		for i, err := range p.Publish(timely(t), messages) {
			if publisher.ClassOf(err) != publisher.Accepted {
				t.Fatalf("message %d: %v", i, err)
			}
		}
	}

	for _, shape := range []struct{ n, keys int }{{1000, 1}, {2500, 1}, {1000, 7}, {3000, 40}, {1000, 100}} {
		t.Run(fmt.Sprintf("%d messages of %d keys", shape.n, shape.keys), func(t *testing.T) {
			s, prefix := atomic(t, jetstream.StreamConfig{})
			all := hotRows(prefix+".a", shape.n, shape.keys)
			for i := range all {
				all[i].Topic = fmt.Sprint(prefix, ".", i%3) // one stream, but several subjects
			}
			accepted(t, all)
			inOrder(t, s, all)
			if n := batches(t, s); (n > shape.n/2) != (shape.n/shape.keys >= 16) {
				t.Errorf("%d of %d messages came in batches", n, shape.n)
			}
		})
	}

	t.Run("goes by one where the stream does not allow more", func(t *testing.T) {
		topic := harness{}.Unknown(t)
		s := stream(t, js, jetstream.StreamConfig{Subjects: []string{topic}})
		all := hotRows(topic, 200, 1)
		accepted(t, all)
		inOrder(t, s, all)
		if n := batches(t, s); n > 0 {
			t.Errorf("%d messages came in batches", n)
		}
	})

	t.Run("stops where the stream allows it no more", func(t *testing.T) {
		s, prefix := atomic(t, jetstream.StreamConfig{})
		config := s.CachedInfo().Config
		config.AllowAtomicPublish = false
		if _, err := js.UpdateStream(timely(t), config); err != nil {
			t.Fatal(err)
		}
		all := hotRows(prefix+".a", 100, 2)
		accepted(t, all)
		inOrder(t, s, all)
	})

	t.Run("skips what the stream has", func(t *testing.T) {
		for name, stored := range map[string]func(i int) bool{
			"all":              func(int) bool { return true },
			"the first":        func(i int) bool { return i < 60 },
			"one key":          func(i int) bool { return i%2 == 0 },
			"some of each key": func(i int) bool { return i < 40+20*(i%2) },
			"every third":      func(i int) bool { return i%3 == 0 },
			"the last":         func(i int) bool { return i == 199 },
		} {
			t.Run(name, func(t *testing.T) {
				s, prefix := atomic(t, jetstream.StreamConfig{})
				all := hotRows(prefix+".a", 200, 2)
				var first, second []publisher.Message
				for i := range all {
					if stored(i) {
						first = append(first, all[i])
					} else {
						second = append(second, all[i])
					}
				}
				accepted(t, first)
				accepted(t, all)
				inOrder(t, s, append(first, second...))
			})
		}
	})

	t.Run("finds the message that is refused", func(t *testing.T) {
		s, prefix := atomic(t, jetstream.StreamConfig{MaxMsgSize: 2000})
		all := hotRows(prefix+".a", 100, 2)
		all[50].Payload = make([]byte, 3000)
		answers := p.Publish(timely(t), all)
		var want []publisher.Message
		for i, err := range answers {
			class := publisher.Accepted
			switch {
			case i == 50:
				class = publisher.Permanent
			case i > 50 && i%2 == 0:
				class = publisher.NotAttempted
			default:
				want = append(want, all[i])
			}
			if publisher.ClassOf(err) != class {
				t.Errorf("answer %d is %v, want %v", i, err, class)
			}
		}
		inOrder(t, s, want)
	})

	t.Run("leaves out what cannot be sent", func(t *testing.T) {
		s, prefix := atomic(t, jetstream.StreamConfig{})
		all := hotRows(prefix+".a", 100, 2)
		all[50].Payload = make([]byte, 2<<20)
		all[71].Headers = []publisher.Header{{Name: "a b", Value: "c"}}
		answers := p.Publish(timely(t), all)
		for i, class := range map[int]publisher.Class{
			48: publisher.Accepted, 50: publisher.Permanent, 52: publisher.NotAttempted,
			69: publisher.Accepted, 71: publisher.Permanent, 73: publisher.NotAttempted,
		} {
			if publisher.ClassOf(answers[i]) != class {
				t.Errorf("answer %d is %v, want %v", i, answers[i], class)
			}
		}
		if n := batches(t, s); n != 25+35 {
			t.Errorf("%d messages came in batches", n)
		}
	})

	t.Run("stops at a full stream", func(t *testing.T) {
		s, prefix := atomic(t, jetstream.StreamConfig{MaxMsgs: 130, Discard: jetstream.DiscardNew})
		all := hotRows(prefix+".a", 200, 1)
		answers := p.Publish(timely(t), all)
		for i, class := range map[int]publisher.Class{
			129: publisher.Accepted, 130: publisher.Unavailable, 131: publisher.NotAttempted,
			199: publisher.NotAttempted,
		} {
			if publisher.ClassOf(answers[i]) != class {
				t.Errorf("answer %d is %v, want %v", i, answers[i], class)
			}
		}
		inOrder(t, s, all[:130])
	})

	t.Run("crosses streams", func(t *testing.T) {
		s, prefix := atomic(t, jetstream.StreamConfig{})
		s2, prefix2 := atomic(t, jetstream.StreamConfig{})
		topic := harness{}.Unknown(t)
		s3 := stream(t, js, jetstream.StreamConfig{Subjects: []string{topic}})
		all := hotRows(prefix+".a", 600, 3)
		var first, second, third []publisher.Message
		for i := range all {
			switch {
			case i >= 400 || i%3 == 2 && i%7 == 0:
				all[i].Topic, second = prefix2+".b", append(second, all[i])
				second[len(second)-1].Topic = all[i].Topic
			case i >= 300:
				all[i].Topic, third = topic, append(third, all[i])
			default:
				first = append(first, all[i])
			}
		}
		accepted(t, all)
		inOrder(t, s, first)
		inOrder(t, s2, second)
		inOrder(t, s3, third)
	})
}

// A stream that reports that it accepts batches, but answers as if it did not, has stored some or all of the messages.
// Their outcome is unknown, and no more batches are made.
func TestRunsUnknown(t *testing.T) {
	var committed atomic.Int64
	f := (&fake{publish: func(c *fakeConn, subject, reply, body string) {
		switch {
		case subject == "$JS.API.STREAM.NAMES":
			c.answer(reply, `{"streams":["S"]}`)
		case subject == "$JS.API.STREAM.INFO.S":
			c.answer(reply, `{"config":{"name":"S","subjects":["a"],"allow_atomic":true,"storage":"memory","num_replicas":1}}`)
		default:
			if strings.Contains(body, "Nats-Batch-Commit: 1") {
				committed.Add(1)
			}
			stores(c, subject, reply, body)
		}
	}}).start(t)
	p := open(t, nats.Config{Servers: []string{f.address}})
	unknown := 0
	for range 10 {
		answers := p.Publish(timely(t), hotRows("a", 100, 1))
		for i, err := range answers {
			switch class := publisher.ClassOf(err); class {
			case publisher.Accepted, publisher.NotAttempted:
			case publisher.Ambiguous:
				unknown++
			default:
				t.Fatalf("message %d is %v: %v", i, class, err)
			}
		}
	}
	if n := committed.Load(); n != 1 || unknown < 8 {
		t.Errorf("%d batches were sent, and %d messages had an unknown outcome", n, unknown)
	}
}
