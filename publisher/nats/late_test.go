package nats_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/nats"
)

// silentStream is a fake server on which the stream B acknowledges a message after a time, and the stream A at once.
// sent is called with the id of each message to B.
func silentStream(t *testing.T, after time.Duration, sent func(id string)) *fake {
	t.Helper()
	f := &fake{}
	f.publish = func(c *fakeConn, subject, reply, body string) {
		name, info := strings.CutPrefix(subject, "$JS.API.STREAM.INFO.")
		switch {
		case info:
			c.answer(reply, fmt.Sprintf(
				`{"config":{"name":%q,"subjects":["%s.>"],"storage":"memory","num_replicas":1}}`,
				name, strings.ToLower(name)))
			return
		case subject == "$JS.API.STREAM.NAMES":
			name := "A"
			if strings.Contains(body, `"b.`) {
				name = "B"
			}
			c.answer(reply, fmt.Sprintf(`{"streams":[%q]}`, name))
			return
		case strings.HasPrefix(subject, "$JS."), strings.HasPrefix(subject, "_INBOX."):
			c.nobody(reply)
			return
		}
		ack := fmt.Sprintf(`{"stream":%q,"seq":1}`, strings.ToUpper(subject[:1]))
		if !strings.HasPrefix(subject, "b.") || subject == "b.first" {
			c.answer(reply, ack)
			return
		}
		sent(headerIn(body, "message-id"))
		if reply != "" {
			time.AfterFunc(after, func() { c.answer(reply, ack) })
		}
	}
	return f.start(t)
}

// headerIn returns a header of a message as it is on the wire.
func headerIn(body, name string) string {
	_, rest, _ := strings.Cut(body, "\r\n"+name+": ")
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}

// A call does not wait for a stream that acknowledges nothing while the server answers. The stream's messages are
// unavailable with the stream as their fate, whether they were sent or not. The messages of other streams are accepted.
func TestSilentStreamIsGivenUp(t *testing.T) {
	t.Parallel()
	p := open(t, nats.Config{Servers: []string{silentStream(t, time.Hour, func(string) {}).address}})
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
		for i, err := range errs {
			class := publisher.ClassOf(err)
			fate, _ := publisher.FateOf(err, messages[i].Topic)
			if i < 500 && class != publisher.Accepted || i >= 500 && class != publisher.NotAttempted &&
				(class != publisher.Unavailable || fate != publisher.Fate{Kind: publisher.FateStream, Name: "B"}) {
				t.Fatalf("message %d: %v %v: %v", i, class, fate, err)
			}
		}
	}
}

// A message that is sent again after a silence may be kept once more. When its stream at last reports it as a
// duplicate, that is of the earlier try, and no sign of another row with the same id.
func TestLateDuplicateIsOfTheEarlierTry(t *testing.T) {
	t.Parallel()
	var tries atomic.Int64
	p := open(t, nats.Config{Timeout: 3 * time.Second, Servers: []string{(&fake{
		publish: func(c *fakeConn, subject, reply, _ string) {
			switch {
			case subject != "a.b":
				c.nobody(reply)
			case tries.Add(1) > 1:
				const duplicate = `{"stream":"A","seq":1,"duplicate":true}`
				time.AfterFunc(2*time.Second, func() { c.answer(reply, duplicate) })
			}
		},
	}).start(t).address}})
	message, republished := hotRows("a.b", 1, 1), 0
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for ctx := timely(t); ; <-again.C {
		call, cancel := context.WithTimeout(ctx, 3*time.Second)
		err := p.Publish(call, message)[0]
		cancel()
		if publisher.Republished(err) {
			republished++
		}
		if _, duplicate := errors.AsType[*publisher.Duplicate](err); duplicate {
			t.Fatalf("after %d tries: %v", tries.Load(), err)
		}
		if publisher.ClassOf(err) == publisher.Accepted {
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	if tries.Load() != 2 || republished != 1 {
		t.Errorf("sent %d times and told as published again %d times", tries.Load(), republished)
	}
}
