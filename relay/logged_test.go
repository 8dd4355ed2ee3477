package relay

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/logtest"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// A stop while the database does not answer is not reported as trouble of the database.
func TestStopBeforeTheTableIsFoundIsNoTrouble(t *testing.T) {
	t.Parallel()
	config, err := pgxpool.ParseConfig("postgres://u@192.0.2.1/db")
	if err != nil {
		t.Fatal(err)
	}
	dialling := make(chan struct{}, 100)
	config.ConnConfig.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) {
		dialling <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var log logtest.Log
	r, err := New(pool, Config{
		OwnerTTL: time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Destinations: []*Destination{{Publisher: publishertest.NewBroker().Publisher()}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	<-dialling
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if text := log.String(); strings.Contains(text, "cannot be used") {
		t.Errorf("logged:\n%s", text)
	}
}
