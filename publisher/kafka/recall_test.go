package kafka

import (
	"fmt"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// Messages that no call asks for again are forgotten, after some time.
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
			messages[i] = publisher.Message{ID: fmt.Sprint(name, i), Topic: "t", Payload: []byte(name)}
			queue[i] = int32(i)
		}
		r.keep(b, messages, queue, now)
		return b
	}
	message := func(name string, i int) *publisher.Message {
		return &publisher.Message{ID: fmt.Sprint(name, i), Topic: "t", Payload: []byte(name)}
	}
	first := keep("first", 10)
	if b, accepted := r.find(message("first", 3), now); b != first || accepted {
		t.Error("a kept batch is not found")
	}
	for what, change := range map[string]func(*publisher.Message){
		"of another topic":     func(m *publisher.Message) { m.Topic = "other" },
		"with another payload": func(m *publisher.Message) { m.Payload = []byte("corrected") },
		"with another key":     func(m *publisher.Message) { m.Key = []byte{} },
		"with another header":  func(m *publisher.Message) { m.Headers = []publisher.Header{{}} },
		"without its payload":  func(m *publisher.Message) { m.Payload = nil },
	} {
		m := message("first", 3)
		change(m)
		if b, _ := r.find(m, now); b != nil {
			t.Errorf("a message %s is found", what)
		}
	}
	r.accept(first, now)
	if _, accepted := r.find(message("first", 3), now.Add(recallFor)); !accepted {
		t.Error("an accepted batch is not found")
	}
	if b, _ := r.find(message("first", 3), now.Add(recallFor+1)); b != nil {
		t.Error("an old batch is found")
	}
	r.reported("first3")
	if b, _ := r.find(message("first", 3), now); b != nil {
		t.Error("a message whose caller knows is found")
	}
	unresolved := keep("unresolved", 3)
	r.accept(keep("other", 1), now.Add(2*recallFor))
	if b, _ := r.find(message("unresolved", 2), now.Add(maxKept)); b != unresolved {
		t.Error("an unresolved batch was forgotten")
	}
	r.forget(func(b *batch) bool { return b == unresolved })
	r.accept(keep("last", 1), now.Add(4*recallFor))
	if n := len(r.byID); n != 1 {
		t.Errorf("%d messages are remembered, want 1", n)
	}
}
