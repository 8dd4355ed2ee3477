package relay

import (
	"context"
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
	"github.com/outbox-relay/outbox-relay/sql"
)

// behindFirewalls makes a relay whose pool, control connection and listener each lead through a firewall.
func behindFirewalls(t *testing.T, s *pgtest.Schema, b *publishertest.Broker, pooler bool) (
	r *Relay, work, control, listen *pgtest.Firewall,
) {
	t.Helper()
	connect := func(address string) func(context.Context) (*pgx.Conn, error) {
		config, err := pgx.ParseConfig(address)
		if err != nil {
			t.Fatal(err)
		}
		return func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, config.Copy()) }
	}
	work, workURL := pgtest.NewFirewall(t, s.URL)
	control, controlURL := pgtest.NewFirewall(t, s.URL)
	listen, listenURL := pgtest.NewFirewall(t, s.URL)
	r = replica(t, s, b, func(c *tested) {
		c.OwnerTTL, c.ListenChannel, c.guard.connect = 2*time.Second, s.Name, connect(controlURL)
		links := &outbox.Links{Connect: connect(workURL), Pooler: pooler, Patience: c.OwnerTTL / 2, Logger: slog.New(slog.DiscardHandler)}
		config, err := pgxpool.ParseConfig(workURL)
		if err != nil {
			t.Fatal(err)
		}
		config.ConnConfig.DialFunc, config.AfterConnect, config.MaxConns = links.Dial, links.Note, 4
		if c.Pool, err = pgxpool.NewWithConfig(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { links.ClosePool(c.Pool) })
		c.guard.links = links
	})
	r.listener.Connect = connect(listenURL)
	return r, work, control, listen
}

// A firewall forgets connections to the database while work is under way: all, some or one of them, in both directions or in
// one. New connections work, and rows flow again soon, at the latest after the time to live and two seconds. Previously this
// took half a minute and more.
func TestHalfOpenConnectionsToTheDatabase(t *testing.T) {
	t.Parallel()
	const all = math.MaxInt
	for name, test := range map[string]struct {
		work, control, listen int // numbers of these connections that are forgotten
		toServer, fromServer  bool
		pooler                bool // the server's sessions are not known
	}{
		"all":                               {work: all, control: all, listen: all, toServer: true, fromServer: true},
		"all, to the server":                {work: all, control: all, listen: all, toServer: true},
		"all, from the server":              {work: all, control: all, listen: all, fromServer: true},
		"all, behind a pooler":              {work: all, control: all, listen: all, toServer: true, fromServer: true, pooler: true},
		"the pool":                          {work: all, toServer: true, fromServer: true},
		"the pool, from the server":         {work: all, fromServer: true},
		"one of the pool":                   {work: 1, toServer: true, fromServer: true},
		"one of the pool, to the server":    {work: 1, toServer: true},
		"control connection":                {control: all, toServer: true, fromServer: true},
		"control connection, to the server": {control: all, toServer: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, b := pgtest.New(t), publishertest.NewBroker()
			s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
			r, work, control, listen := behindFirewalls(t, s, b, test.pooler)
			start(t, r)
			eventually(t, "listening", r.listener.Up)
			s.Exec(t, insertKeyed, 3000)
			b.Await(t, 500) // reads and marks are under way
			work.Forget(test.work, test.toServer, test.fromServer)
			control.Forget(test.control, test.toServer, test.fromServer)
			listen.Forget(test.listen, test.toServer, test.fromServer)
			began := time.Now()
			s.Exec(t, insertKeyed, 100)
			eventually(t, "all is relayed", func() bool { return allRelayed(t, s) })
			t.Logf("after %v", time.Since(began).Round(time.Millisecond))
			if got := len(b.All()); got > 3100+r.config.MaxInFlight {
				t.Errorf("%d deliveries of 3100 rows", got)
			}
		})
	}
}
