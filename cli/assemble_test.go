package cli

import (
	"io"
	"log/slog"
	"testing"

	"github.com/outbox-relay/outbox-relay/config"
)

// Each destination can open its publisher again.
func TestPublishersCanBeOpenedAgain(t *testing.T) {
	t.Setenv("OUTBOX_DATABASE_URL", "postgres://app:hush@db/shop")
	for _, url := range []string{"kafka://broker", "nats://broker", "amqp://broker", "stdout:"} {
		t.Setenv("OUTBOX_PUBLISH_URL", url)
		c, err := config.Load(config.NeedAll)
		if err != nil {
			t.Fatal(err)
		}
		a, err := (&program{}).gather(t.Context(), c, io.Discard, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range a.config.Destinations {
			again, err := d.Reopen()
			if err != nil || again == d.Publisher {
				t.Fatalf("%s: %v, %v", url, again, err)
			}
			if err := again.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := a.close(); err != nil {
			t.Error(err)
		}
	}
}
