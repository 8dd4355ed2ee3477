package keyorder_test

import (
	"fmt"
	"testing"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/keyorder"
)

func TestLink(t *testing.T) {
	t.Parallel()
	var o keyorder.Order
	for _, n := range []int{3000, 0, 1, 700} { // the tables are reused
		messages := make([]publisher.Message, n)
		for i := range messages {
			switch {
			case i%10 == 3: // no key
			case i%10 == 4:
				messages[i].Key = []byte{}
			default:
				messages[i].Key = fmt.Appendf(nil, "key-%d", i*i%501)
			}
		}
		o.Link(messages)
		check(t, &o, messages)
	}
}

func check(t *testing.T, o *keyorder.Order, messages []publisher.Message) {
	t.Helper()
	first, next := map[string]int32{}, make([]int32, len(messages))
	last := map[string]int{}
	for i := range messages {
		next[i] = keyorder.None
		key := string(messages[i].Key)
		want := int32(keyorder.None)
		if messages[i].Key != nil {
			if _, ok := first[key]; !ok {
				first[key] = int32(i)
			} else {
				next[last[key]] = int32(i)
			}
			want, last[key] = first[key], i
		}
		if o.First[i] != want {
			t.Fatalf("of %d messages, the first with the key of number %d (%q) is %d, want %d", len(messages), i, key,
				o.First[i], want)
		}
		if o.Waits(i) != (want != keyorder.None && want != int32(i)) {
			t.Fatalf("message %d waits: %v", i, o.Waits(i))
		}
	}
	for i := range messages {
		if o.Next[i] != next[i] {
			t.Fatalf("of %d messages, %d follows number %d (key %q), want %d", len(messages), o.Next[i], i,
				messages[i].Key, next[i])
		}
	}
}

func BenchmarkLink(b *testing.B) {
	messages := make([]publisher.Message, 1000)
	for i := range messages {
		messages[i].Key = fmt.Appendf(nil, "customer-%d", i/2)
	}
	var o keyorder.Order
	b.ReportAllocs()
	for b.Loop() {
		o.Link(messages)
	}
}
