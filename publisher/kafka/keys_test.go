package kafka

import (
	"fmt"
	"testing"

	"github.com/outbox-relay/outbox-relay/publisher"
)

func TestKeyGroups(t *testing.T) {
	t.Parallel()
	var g keyGroups
	for _, n := range []int{3000, 0, 1, 700} { // the tables are reused
		messages := make([]publisher.Message, n)
		first := map[string]int32{}
		for i := range messages {
			switch {
			case i%10 == 3: // no key
			case i%10 == 4:
				messages[i].Key = []byte{}
			default:
				messages[i].Key = fmt.Appendf(nil, "key-%d", i*i%501)
			}
			if _, ok := first[string(messages[i].Key)]; !ok && messages[i].Key != nil {
				first[string(messages[i].Key)] = int32(i)
			}
		}
		g.build(messages, murmur2)
		for i := range messages {
			want := int32(keyless)
			if messages[i].Key != nil {
				want = first[string(messages[i].Key)]
			}
			if g.of[i] != want {
				t.Fatalf("of %d messages, number %d (key %q) is in group %d, want %d", n, i, messages[i].Key, g.of[i], want)
			}
		}
	}
}
