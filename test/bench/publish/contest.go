// Package publish holds the code shared by the comparisons of the publishers with the bare clients of their brokers.
// Each broker has a folder below it.
package publish

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// Batch is the number of messages that a call publishes, both of the publisher and of its reference.
const Batch = 1000

// A Contest compares one way to publish with another, in turns.
type Contest struct {
	Name   string
	Of     string // the other way
	Target float64
	Rounds int
	// Round publishes in both ways and returns the rates, in messages a second.
	Round func(context.Context) (ours, theirs float64, err error)
}

// Rates returns a round of a contest, which measures first the subject and then its reference.
func Rates[S any](subject, reference S, measure func(context.Context, S) (float64, error)) func(context.Context) (
	float64, float64, error,
) {
	return func(ctx context.Context) (ours, theirs float64, err error) {
		if ours, err = measure(ctx, subject); err != nil {
			return 0, 0, err
		}
		theirs, err = measure(ctx, reference)
		return ours, theirs, err
	}
}

// Run runs the rounds and writes the rates, their ratio (the median of the rounds' ratios), target and verdict to out.
// A first round warms the broker up and is not counted.
func (c Contest) Run(ctx context.Context, out io.Writer) error {
	var ours, theirs, ratios []float64
	for round := range c.Rounds + 1 {
		one, other, err := c.Round(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		if round > 0 {
			ours, theirs, ratios = append(ours, one), append(theirs, other), append(ratios, one/other)
		}
	}
	ratio, verdict := median(ratios), "reached"
	if ratio < c.Target {
		verdict = "missed"
	}
	_, err := fmt.Fprintf(out, "%-24s %7.0f messages/s, %s %7.0f, ratio %.2f (%.2f to %.2f), target %.2f: %s\n",
		c.Name, median(ours), c.Of, median(theirs), ratio, slices.Min(ratios), slices.Max(ratios), c.Target, verdict)
	return err
}

// Messages returns messages of 512 bytes, each with an id and a key of its own, and without a topic.
func Messages(n int) []publisher.Message {
	payload := make([]byte, 512)
	messages := make([]publisher.Message, n)
	for i := range messages {
		id := fmt.Sprintf("018f4b1e-7c3a-7000-8000-%012d", i)
		messages[i] = publisher.Message{
			ID: id, DedupID: id, Key: fmt.Appendf(nil, "customer-%d", i), Payload: payload,
			Headers: []publisher.Header{
				{Name: "source", Value: "orders-service"},
				{Name: "traceparent", Value: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
			},
			Type: "application/json", Inserted: time.Unix(1_700_000_000, 0),
		}
	}
	return messages
}

// WithTopic gives all messages a topic.
func WithTopic(messages []publisher.Message, topic string) []publisher.Message {
	for i := range messages {
		messages[i].Topic = topic
	}
	return messages
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
