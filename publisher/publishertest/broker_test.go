package publishertest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// keyed returns a message with a simple id and topic.
func keyed(id, topic, key string) publisher.Message {
	return publisher.Message{ID: id, Topic: topic, Key: []byte(key)}
}

func TestScriptedAnswers(t *testing.T) {
	t.Parallel()
	const ok, after = publisher.Accepted, publisher.NotAttempted
	for name, test := range map[string]struct {
		script func(*Broker)
		want   [][4]publisher.Class // classes for each call with the same four messages
		stored int
	}{
		"none": {func(*Broker) {}, [][4]publisher.Class{{ok, ok, ok, ok}}, 4},
		"refused": {
			func(b *Broker) { b.Refuse("1", 2) },
			[][4]publisher.Class{
				{publisher.Refused, ok, after, ok},
				{publisher.Refused, ok, after, ok},
				{ok, ok, ok, ok},
			},
			8,
		},
		"poison": {func(b *Broker) { b.Poison("1") }, [][4]publisher.Class{
			{publisher.Permanent, ok, after, ok},
			{publisher.Permanent, ok, after, ok},
		}, 4},
		"healed": {func(b *Broker) {
			b.Poison("1")
			b.Crash("2")
			b.Refuse("4", 1)
			b.Heal("1")
			b.Heal("2")
			b.Heal("4")
		}, [][4]publisher.Class{{ok, ok, ok, ok}}, 4},
		"answer": {
			func(b *Broker) { b.Answer("1", publisher.ErrClosed, nil) },
			[][4]publisher.Class{{publisher.Unavailable, ok, after, ok}, {ok, ok, ok, ok}},
			6,
		},
		"no answer": {
			func(b *Broker) { b.LoseAnswer("1", 1) },
			[][4]publisher.Class{{publisher.Ambiguous, ok, after, ok}, {ok, ok, ok, ok}},
			7,
		},
		"no message": {
			func(b *Broker) { b.LoseMessage("1", 1) },
			[][4]publisher.Class{{publisher.Ambiguous, ok, after, ok}, {ok, ok, ok, ok}},
			6,
		},
		"crash": {
			func(b *Broker) { b.Crash("2") },
			[][4]publisher.Class{{publisher.Ambiguous, publisher.Ambiguous, publisher.Ambiguous, publisher.Ambiguous}},
			0,
		},
		"no topic": {
			func(b *Broker) { b.Remove("t") },
			[][4]publisher.Class{{publisher.Topology, publisher.Topology, after, ok}},
			1,
		},
		"created": {func(b *Broker) { b.Remove("t"); b.Create("t") }, [][4]publisher.Class{{ok, ok, ok, ok}}, 4},
		"topic down": {
			func(b *Broker) { b.DownTopic("t") },
			[][4]publisher.Class{{publisher.Unavailable, publisher.Unavailable, after, ok}},
			1,
		},
		"topic up": {func(b *Broker) { b.DownTopic("t"); b.UpTopic("t") }, [][4]publisher.Class{{ok, ok, ok, ok}}, 4},
		"down": {func(b *Broker) { b.Down() }, [][4]publisher.Class{{
			publisher.Unavailable, publisher.Unavailable, publisher.Unavailable,
			publisher.Unavailable,
		}}, 0},
		"up": {func(b *Broker) { b.Down(); b.Up() }, [][4]publisher.Class{{ok, ok, ok, ok}}, 4},
		"reset": {
			func(b *Broker) { b.Down(); b.Hold(); b.Poison("1"); b.Reset() },
			[][4]publisher.Class{{ok, ok, ok, ok}},
			4,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := NewBroker()
			p := b.Publisher()
			test.script(b)
			call := []publisher.Message{
				keyed("1", "t", "a"), keyed("2", "t", "b"), keyed("3", "t", "a"),
				keyed("4", "u", "c"),
			}
			for _, want := range test.want {
				expectEach(t, p.Publish(t.Context(), call), want[:]...)
			}
			if got := len(b.All()); got != test.stored {
				t.Errorf("the broker holds %d messages, not %d", got, test.stored)
			}
			if got := b.Tries("1"); got != len(test.want) {
				t.Errorf("%d tries, not %d", got, len(test.want))
			}
		})
	}
}

func TestHeldCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBroker()
		p := b.Publisher()
		b.Hold()
		call := make(chan []error, 2)
		go func() { call <- p.Publish(t.Context(), []publisher.Message{keyed("1", "t", "a")}) }()
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			call <- p.Publish(ctx, []publisher.Message{keyed("2", "t", "b")})
		}()
		b.AwaitHeld(t, 2)
		expect(t, <-call, publisher.Ambiguous) // in an hour
		b.Release()
		expect(t, <-call, publisher.Accepted)
		if all := b.Await(t, 1); len(all) != 1 || all[0].ID != "1" {
			t.Errorf("the broker holds %v", all)
		}
	})
}

func TestDelayedCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBroker()
		p := b.Publisher()
		b.Delay(time.Minute)
		start := time.Now()
		expect(t, p.Publish(t.Context(), make([]publisher.Message, 0)))
		expect(t, p.Publish(t.Context(), []publisher.Message{keyed("1", "t", "a")}), publisher.Accepted)
		if took := time.Since(start); took != time.Minute {
			t.Errorf("the calls took %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if p.Ping(ctx) == nil {
			t.Error("Ping does not wait")
		}
	})
}

func TestCloseEndsHeldCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBroker()
		p := b.Publisher()
		b.Hold()
		call := make(chan []error, 1)
		go func() { call <- p.Publish(t.Context(), []publisher.Message{keyed("1", "t", "a")}) }()
		b.AwaitHeld(t, 1)
		_ = p.Close()
		expect(t, <-call, publisher.Ambiguous)
	})
}

func TestOverlaps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBroker()
		b.Hold()
		calls := make(chan []error)
		for _, key := range []string{"a", "a", "b"} {
			go func() { calls <- b.Publisher().Publish(t.Context(), []publisher.Message{keyed(key, "t", key)}) }()
		}
		b.AwaitHeld(t, 3)
		b.Release()
		for range 3 {
			expect(t, <-calls, publisher.Accepted)
		}
		expect(t, b.Publisher().Publish(t.Context(), []publisher.Message{keyed("b", "t", "b")}), publisher.Accepted)
		if got := b.Overlaps(); len(got) != 1 || got[0] != "a" {
			t.Errorf("overlaps: %v", got)
		}
		b.AwaitTries(t, "b", 2)
	})
}
