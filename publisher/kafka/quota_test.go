package kafka

import (
	"crypto/rand"
	"log/slog"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A client above its quota on the real broker is asked to pause. What it sends in the meantime is held without being
// sent. It can still ask questions, and in the end everything is accepted. (The broker measures over some ten seconds.)
func TestQuotaOnBroker(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	topic, client := h.topic(t, 2), "quota-"+rand.Text()
	quota := func(op kafkago.AlterClientQuotaOps) {
		response, err := h.client.AlterClientQuotas(t.Context(),
			&kafkago.AlterClientQuotasRequest{Entries: []kafkago.AlterClientQuotaEntry{{
				Entities: []kafkago.AlterClientQuotaEntity{{EntityType: "client-id", EntityName: client}},
				Ops:      []kafkago.AlterClientQuotaOps{op},
			}}})
		if err == nil && len(response.Entries) == 1 {
			err = response.Entries[0].Error
		}
		if err != nil {
			t.Fatalf("set the quota: %v", err)
		}
	}
	quota(kafkago.AlterClientQuotaOps{Key: "producer_byte_rate", Value: 40_000})
	p := New(Config{Brokers: h.brokers, ClientID: client, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = p.Close() })
	messages := benchMessages(topic)
	throttled, pause := false, time.NewTicker(50*time.Millisecond)
	defer pause.Stop()
	for left := messages; len(left) > 0; {
		var again []publisher.Message
		for i, err := range answersOf(t, p, left[:min(400, len(left))]) {
			switch {
			case err == nil:
				continue
			case publisher.ClassOf(err) == down && publisher.ShortOf(err) == "throttled":
				throttled = true
			case publisher.ClassOf(err) != after:
				t.Fatalf("message %s: %v", left[i].ID, err)
			}
			again = append(again, left[i])
		}
		left = append(again, left[min(400, len(left)):]...)
		// the machine is so slow that the client keeps within the quota
		if len(left) == 0 && !throttled && len(messages) < 20*benchBatch {
			left = benchMessages(topic)
			messages = append(messages, left...)
		}
		if len(again) == 0 {
			continue
		}
		if err := p.Ping(t.Context()); err != nil {
			t.Errorf("asking in the pause: %v", err)
		}
		<-pause.C // as the relay does
	}
	if n := len(h.received(t, topic, len(messages))); n != len(messages) {
		t.Errorf("the topic holds %d messages of %d", n, len(messages))
	}
	quota(kafkago.AlterClientQuotaOps{Key: "producer_byte_rate", Remove: true})
	if !throttled {
		t.Error("the client was never throttled")
	}
}
