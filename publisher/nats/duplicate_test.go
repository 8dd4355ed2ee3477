package nats_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/nats"
)

// duplicates returns how many of the answers say that the stream already has the message.
func duplicates(t *testing.T, answers []error, stream string) (n int) {
	t.Helper()
	for i, err := range answers {
		duplicate, ok := errors.AsType[*publisher.Duplicate](err)
		switch {
		case ok && duplicate.Stream == stream:
			n++
		case err != nil:
			t.Fatalf("answer %d: %v", i, err)
		}
	}
	return n
}

// The answers distinguish what a stream drops from what it stores, and the key goes on after a dropped
// message.
func TestDroppedMessagesAreReported(t *testing.T) {
	t.Parallel()
	js := broker(t)
	for _, n := range []int{1, 100, 1500} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			topic := harness{}.Unknown(t)
			s := stream(t, js, jetstream.StreamConfig{Subjects: []string{topic}, Duplicates: 10 * time.Minute})
			name := s.CachedInfo().Config.Name
			p, stranger := open(t, nats.Config{}), open(t, nats.Config{})
			all := hotRows(topic, 2*n, 3)
			if got := duplicates(t, stranger.Publish(timely(t), all[:n]), name); got != 0 {
				t.Errorf("%d of %d new messages are duplicates", got, n)
			}
			if got := duplicates(t, p.Publish(timely(t), all), name); got != n {
				t.Errorf("%d duplicates of %d messages that the stream has", got, n)
			}
			if got := duplicates(t, p.Publish(timely(t), all), name); got != 2*n {
				t.Errorf("%d duplicates of %d messages that the stream has", got, 2*n)
			}
			inOrder(t, s, all)
		})
	}
}
