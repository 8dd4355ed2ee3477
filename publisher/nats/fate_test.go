package nats_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/nats"
)

// awaitFate waits until the answer for the message names the given fate, and checks that later answers name nothing
// else. The publisher may ask for the stream first.
func awaitFate(t *testing.T, p *nats.Publisher, m publisher.Message, want publisher.Fate) {
	t.Helper()
	ctx := timely(t)
	for found := 0; found < 3; {
		err := p.Publish(ctx, []publisher.Message{m})[0]
		got, ok := publisher.FateOf(err, m.Topic)
		switch {
		case ok && got == want:
			found++
		case !ok || found > 0 || ctx.Err() != nil || got.Kind != publisher.FateTopic:
			t.Fatalf("the answer names %v (%v), not %v: %v", got, ok, want, err)
		}
	}
}

func fatesOf(messages []publisher.Message, answers []error) (names []string) {
	for i, err := range answers {
		name := "-"
		if f, ok := publisher.FateOf(err, messages[i].Topic); ok {
			name = f.String()
		}
		names = append(names, name)
	}
	return names
}

// Many subjects of two full streams have two fates, and the subjects of a third stream have none.
func TestFatesOfFullStreams(t *testing.T) {
	t.Parallel()
	js := broker(t)
	p := open(t, nats.Config{})
	prefix := harness{}.Unknown(t)
	var want []string
	var messages []publisher.Message
	for i, limit := range []int64{1, 1, -1} {
		s := stream(t, js, jetstream.StreamConfig{
			Subjects: []string{fmt.Sprint(prefix, i, ".>")}, MaxMsgs: limit,
			Discard: jetstream.DiscardNew,
		})
		expect(t, p.Publish(timely(t), hotRows(fmt.Sprint(prefix, i, ".first"), 1, 1)), publisher.Accepted)
		for n := range 20 {
			messages = append(messages, hotRows(fmt.Sprint(prefix, i, ".", n), 1, 1)...)
			messages[len(messages)-1].Key = fmt.Append(nil, i, n)
			if fate := "-"; limit < 0 {
				want = append(want, fate)
			} else {
				want = append(want, "stream "+s.CachedInfo().Config.Name)
			}
		}
	}
	ctx := timely(t)
	for !slices.Equal(fatesOf(messages, p.Publish(ctx, messages)), want) { // until it has asked for both streams
		if ctx.Err() != nil {
			t.Fatalf("the fates are %q, not %q", fatesOf(messages, p.Publish(t.Context(), messages)), want)
		}
	}
	for range 3 {
		if got := fatesOf(messages, p.Publish(ctx, messages)); !slices.Equal(got, want) {
			t.Errorf("the fates are %q, not %q", got, want)
		}
	}
}

// A subject that had no stream, or was taken by another one, is taken by a stream that is full. The publisher finds
// that out long before what it knew is old.
func TestFateOfSubjectThatHasMoved(t *testing.T) {
	t.Parallel()
	for _, taken := range []bool{false, true} {
		js := broker(t)
		p := open(t, nats.Config{})
		prefix := harness{}.Unknown(t)
		m := hotRows(prefix+".b", 1, 1)[0]
		before := stream(t, js, jetstream.StreamConfig{
			Subjects: []string{prefix + ".a", prefix + map[bool]string{false: ".none", true: ".b"}[taken]},
			MaxMsgs:  1, Discard: jetstream.DiscardNew,
		}).CachedInfo().Config
		if taken {
			expect(t, p.Publish(timely(t), hotRows(prefix+".a", 1, 1)), publisher.Accepted)
			awaitFate(t, p, m, publisher.Fate{Kind: publisher.FateStream, Name: before.Name})
		} else {
			for range 100 { // the first of these has it asked for
				expect(t, p.Publish(timely(t), []publisher.Message{m}), publisher.Topology)
			}
		}
		before.Subjects = before.Subjects[:1]
		if _, err := js.UpdateStream(t.Context(), before); err != nil {
			t.Fatal(err)
		}
		now := stream(t, js, jetstream.StreamConfig{
			Subjects: []string{prefix + ".b"}, MaxMsgs: 1, Discard: jetstream.DiscardNew,
		}).CachedInfo().Config
		expect(t, p.Publish(timely(t), hotRows(prefix+".b", 1, 1)), publisher.Accepted)
		awaitFate(t, p, m, publisher.Fate{Kind: publisher.FateStream, Name: now.Name})
	}
}

// If a stream gives no answers while others answer, the fate is the stream, even if nothing else is published. If the
// server itself is silent, the fate is the destination.
func TestFateOfSilentStream(t *testing.T) {
	t.Parallel()
	for _, asked := range []bool{true, false} { // whether questions about streams are answered
		f := &fake{}
		f.publish = func(c *fakeConn, subject, reply, body string) {
			name, info := strings.CutPrefix(subject, "$JS.API.STREAM.INFO.")
			switch {
			case subject == "$JS.API.STREAM.NAMES" && asked:
				_, of, _ := strings.Cut(body, `"subject":"`)
				c.answer(reply, fmt.Sprintf(`{"total":1,"streams":[%q]}`, strings.ToUpper(of[:1])))
			case info && asked:
				c.answer(reply, fmt.Sprintf(`{"config":{"name":%q,"subjects":["%s.>"]}}`, name, strings.ToLower(name)))
			case strings.HasPrefix(subject, "$JS."):
				c.nobody(reply)
			case strings.HasPrefix(subject, "b.") && subject != "b.first":
			default:
				c.answer(reply, fmt.Sprintf(`{"stream":%q,"seq":1}`, strings.ToUpper(subject[:1])))
			}
		}
		p := open(t, nats.Config{Servers: []string{f.start(t).address}})
		for _, first := range []string{"a.first", "b.first", "a.first", "b.first"} { // each call may ask for one stream
			accepts(t, p, first)
		}
		all := slices.Concat(hotRows("a.1", 1, 1), hotRows("b.1", 1, 1), hotRows("b.2", 1, 1))
		for i := range all {
			all[i].Key = fmt.Append(nil, i)
		}
		want := []string{"-", "topic b.1", "topic b.2"}
		if asked {
			want = []string{"-", "stream B", "stream B"}
		}
		for _, part := range [][2]int{{0, 3}, {1, 3}} {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			messages := all[part[0]:part[1]]
			if got := fatesOf(messages, p.Publish(ctx, messages)); !slices.Equal(got, want[part[0]:part[1]]) {
				t.Errorf("the fates are %q, not %q", got, want[part[0]:part[1]])
			}
			cancel()
		}
	}
}
