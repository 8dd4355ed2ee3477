package nats_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/nats"
)

// silentStream is a fake server on which the stream B acknowledges a message after a time, and the stream A at once.
func silentStream(t *testing.T, after time.Duration) *fake {
	t.Helper()
	f := &fake{}
	f.publish = func(c *fakeConn, subject, reply, _ string) {
		name, info := strings.CutPrefix(subject, "$JS.API.STREAM.INFO.")
		ack := fmt.Sprintf(`{"stream":%q,"seq":1}`, strings.ToUpper(subject[:1]))
		switch {
		case info:
			c.answer(reply, fmt.Sprintf(`{"config":{"name":%q,"subjects":["%s.>"]}}`, name, strings.ToLower(name)))
		case strings.HasPrefix(subject, "$JS."), strings.HasPrefix(subject, "_INBOX."):
			c.nobody(reply)
		case strings.HasPrefix(subject, "b.") && subject != "b.first":
			time.AfterFunc(after, func() { c.answer(reply, ack) })
		default:
			c.answer(reply, ack)
		}
	}
	return f.start(t)
}

// A call does not wait for a stream that acknowledges nothing while the server answers. Messages sent to the stream are
// ambiguous, and messages not sent are unavailable, both with the stream as their fate. The messages of other streams
// are accepted.
func TestSilentStreamIsGivenUp(t *testing.T) {
	t.Parallel()
	p := open(t, nats.Config{Servers: []string{silentStream(t, time.Hour).address}})
	for _, first := range []string{"a.first", "b.first", "a.first", "b.first"} { // each call may ask for one stream
		accepts(t, p, first)
	}
	var messages []publisher.Message
	for i := range 1500 { // more than may be unanswered
		topic := fmt.Sprint("b.", i%7)
		if i < 500 {
			topic = "a.1"
		}
		messages = append(messages, hotRows(topic, 1, 1)...)
		messages[i].Key = fmt.Append(nil, i/2)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 2 {
		errs := p.Publish(ctx, messages)
		if ctx.Err() != nil {
			t.Fatal("the call has waited for the stream")
		}
		found := map[publisher.Class]int{}
		for i, err := range errs {
			class := publisher.ClassOf(err)
			found[class]++
			fate, _ := publisher.FateOf(err, messages[i].Topic)
			if i < 500 && class != publisher.Accepted || i >= 500 && class == publisher.Accepted ||
				(class == publisher.Ambiguous || class == publisher.Unavailable) && fate != (publisher.Fate{Kind: publisher.FateStream, Name: "B"}) {
				t.Fatalf("message %d: %v %v: %v", i, class, fate, err)
			}
		}
		if found[publisher.Ambiguous] == 0 || found[publisher.Refused]+found[publisher.Permanent]+found[publisher.Topology] > 0 {
			t.Errorf("the answers are %v", found)
		}
	}
}

// A slow but healthy stream gets its messages acknowledged after some tries, however long each takes.
func TestSlowStreamIsGivenTime(t *testing.T) {
	t.Parallel()
	p := open(t, nats.Config{Servers: []string{silentStream(t, 2*time.Second).address}})
	accepts(t, p, "b.first")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tries := 0
	for message := hotRows("b.1", 1, 1); ; tries++ {
		err := p.Publish(ctx, message)[0]
		if err == nil {
			break
		}
		if publisher.ClassOf(err) != publisher.Ambiguous || ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	if tries == 0 || tries > 9 {
		t.Errorf("it was given up %d times", tries)
	}
}
