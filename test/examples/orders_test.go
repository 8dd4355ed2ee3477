package examples

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
	"github.com/outbox-relay/outbox-relay/relay"
)

// A placed order is announced, also if the broker refuses the message at first.
func TestOrderIsAnnounced(t *testing.T) {
	pool := newDatabase(t) // with the tables of the service and the outbox
	if err := PlaceOrder(t.Context(), pool, "ada", 4200); err != nil {
		t.Fatal(err)
	}
	broker := publishertest.NewBroker()
	broker.DownTopic("orders.placed")
	time.AfterFunc(time.Second, func() { broker.UpTopic("orders.placed") })
	r, err := relay.New(pool, relay.Config{
		Destinations: []*relay.Destination{{Publisher: broker.Publisher()}},
		Logger:       slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := r.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	received := broker.Received("orders.placed")
	if len(received) != 1 || string(received[0].Key) != "ada" {
		t.Errorf("the broker has %v", received)
	}
}
