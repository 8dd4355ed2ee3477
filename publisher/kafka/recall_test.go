package kafka

import (
	"fmt"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// What nobody asks for again is forgotten: after some time, and above some number.
func TestRecallForgets(t *testing.T) {
	t.Parallel()
	var r recall
	part := newPartition("t", 0)
	now := time.Now()
	keep := func(name string, n int) *batch {
		b := &batch{partition: part}
		messages := make([]publisher.Message, n)
		queue := make([]int32, n)
		for i := range messages {
			messages[i].ID = fmt.Sprint(name, i)
			queue[i] = int32(i)
		}
		r.keep(b, messages, queue)
		return b
	}
	first := keep("first", 10)
	if b, accepted := r.find("t", "first3", now); b != first || accepted {
		t.Error("a kept batch is not found")
	}
	if b, _ := r.find("other", "first3", now); b != nil {
		t.Error("a message of another topic is found")
	}
	r.accept(first, now)
	if _, accepted := r.find("t", "first3", now.Add(recallFor)); !accepted {
		t.Error("an accepted batch is not found")
	}
	if b, _ := r.find("t", "first3", now.Add(recallFor+1)); b != nil {
		t.Error("an old batch is found")
	}
	r.reported("first3")
	if b, _ := r.find("t", "first3", now); b != nil {
		t.Error("a message whose caller knows is found")
	}
	unresolved := keep("unresolved", 3)
	for i := range 4 {
		r.accept(keep(fmt.Sprint("large", i, "-"), maxRecalled/2), now)
	}
	if n := r.size.Load(); n != maxRecalled+3 {
		t.Errorf("%d messages are remembered, want %d", n, maxRecalled+3)
	}
	if b, _ := r.find("t", "unresolved2", now.Add(time.Hour)); b != unresolved {
		t.Error("an unresolved batch was forgotten")
	}
	r.forget(unresolved)
	r.accept(keep("last", 1), now.Add(2*recallFor))
	if n := r.size.Load(); n != 1 {
		t.Errorf("%d messages are remembered, want 1", n)
	}
}
