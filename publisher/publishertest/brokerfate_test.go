package publishertest

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

func expectFates(t *testing.T, messages []publisher.Message, answers []error, want ...string) {
	t.Helper()
	if got := fates(messages, answers); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Fatalf("the fates are %q, not %q", got, want)
	}
}

func TestBrokerNamesTopics(t *testing.T) {
	t.Parallel()
	b := NewBroker()
	p := b.Publisher()
	b.Remove("missing")
	b.DownTopic("down")
	call := []publisher.Message{
		keyed("1", "missing", "a"), keyed("2", "down", "b"), keyed("3", "t", "c"), keyed("4", "missing", "d"),
		keyed("5", "t", "a"),
	}
	for range 2 {
		expectFates(t, call, p.Publish(t.Context(), call), "topic missing", "topic down", "", "topic missing", "")
	}
	b.Down()
	expectFates(t, call, p.Publish(t.Context(), call), "destination", "destination", "destination", "destination",
		"destination")
}

func TestBrokerNamesPartitions(t *testing.T) {
	t.Parallel()
	b := NewBroker()
	p := b.Publisher()
	b.Partition("t", 3)
	keys := make([]string, 3) // one for each partition
	for i := 0; keys[0] == "" || keys[1] == "" || keys[2] == ""; i++ {
		key := fmt.Sprint(i)
		keys[b.PartitionOf("t", []byte(key))] = key
	}
	call := []publisher.Message{
		keyed("1", "t", keys[0]), keyed("2", "t", keys[1]), keyed("3", "t", keys[2]),
		{ID: "4", Topic: "t"},
	}
	b.DownPartition("t", 0)
	b.DownPartition("t", 2)
	answers := p.Publish(t.Context(), call)
	expectEach(t, answers, publisher.Unavailable, publisher.Accepted, publisher.Unavailable, publisher.Accepted)
	expectFates(t, call, answers, "partition t/0", "", "partition t/2", "")
	b.DownPartition("t", 1)
	expectFates(t, call, p.Publish(t.Context(), call), "partition t/0", "partition t/1", "partition t/2", "topic t")
	b.UpPartition("t", 0)
	expectFates(t, call, p.Publish(t.Context(), call), "", "partition t/1", "partition t/2", "")
	b.Reset()
	expect(t, p.Publish(t.Context(), call), publisher.Accepted)
	if again := b.PartitionOf("t", []byte(keys[2])); again != 2 {
		t.Errorf("the topic has lost its partitions: the key of partition 2 is in partition %d", again)
	}
}

func TestSilentTopic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBroker()
		p := b.Publisher()
		b.Silence("silent")
		b.Poison("4")
		call := []publisher.Message{
			keyed("1", "silent", "a"), keyed("2", "t", "b"), keyed("3", "t", "a"), keyed("4", "t", "c"),
			keyed("5", "silent", "c"),
			{ID: "6", Topic: "silent"},
			keyed("7", "t", ""),
		}
		publish := func() chan []error {
			answers := make(chan []error, 1)
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				answers <- p.Publish(ctx, call)
			}()
			return answers
		}
		began, silent := time.Now(), publish()
		b.AwaitHeld(t, 1)
		if n := len(b.Received("t")); n != 2 {
			t.Errorf("%d messages of the other topic have arrived, not 2", n)
		}
		answers := <-silent
		if took := time.Since(began); took != time.Minute {
			t.Errorf("the call took %v, not its minute", took)
		}
		const ok, after = publisher.Accepted, publisher.NotAttempted
		const never, unknown = publisher.Permanent, publisher.Ambiguous
		expectEach(t, answers, unknown, ok, after, never, after, unknown, ok)
		expectFates(t, call, answers, "topic silent", "", "", "", "", "topic silent", "")
		silent = publish()
		b.AwaitHeld(t, 1)
		b.Speak("silent")
		expectEach(t, <-silent, ok, ok, ok, never, after, ok, ok)
		if n := len(b.Received("silent")); n != 2 {
			t.Errorf("%d messages of the topic have arrived, not 2", n)
		}
	})
}
