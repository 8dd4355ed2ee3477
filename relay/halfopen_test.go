package relay

import (
	"context"
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
func behindFirewalls(t *testing.T, s *pgtest.Schema, b *publishertest.Broker) (
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
		c.OwnerTTL, c.ListenChannel, c.connect = 2*time.Second, s.Name, connect(controlURL)
		config, err := pgxpool.ParseConfig(workURL)
		if err != nil {
			t.Fatal(err)
		}
		config.ConnConfig.DialFunc, config.MaxConns = outbox.Dialer(c.OwnerTTL).DialContext, 4
		if c.Pool, err = pgxpool.NewWithConfig(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeSoon(c.Pool) })
		c.silent = c.Pool.Reset
	})
	r.listener.Connect = connect(listenURL)
	return r, work, control, listen
}

// A proxy that acknowledges in the server's place forgets connections to the database while work is under way, in both
// directions or in one. New connections work, and rows flow again when the time of the statements that wait is over.
func TestHalfOpenConnectionsToTheDatabase(t *testing.T) {
	t.Parallel()
	const all = math.MaxInt
	for name, test := range map[string]struct {
		work, control, listen int // numbers of these connections that are forgotten
		toServer, fromServer  bool
	}{
		"all":                               {work: all, control: all, listen: all, toServer: true, fromServer: true},
		"all, to the server":                {work: all, control: all, listen: all, toServer: true},
		"all, from the server":              {work: all, control: all, listen: all, fromServer: true},
		"the pool":                          {work: all, toServer: true, fromServer: true},
		"one of the pool":                   {work: 1, toServer: true, fromServer: true},
		"control connection":                {control: all, toServer: true, fromServer: true},
		"control connection, to the server": {control: all, toServer: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, b := pgtest.New(t), publishertest.NewBroker()
			s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
			r, work, control, listen := behindFirewalls(t, s, b)
			start(t, r)
			eventually(t, "listening", r.listener.Up)
			s.Exec(t, insertKeyed, 3000)
			b.Await(t, 500) // reads and marks are under way
			work.Forget(test.work, test.toServer, test.fromServer)
			control.Forget(test.control, test.toServer, test.fromServer)
			listen.Forget(test.listen, test.toServer, test.fromServer)
			began := time.Now()
			s.Exec(t, insertKeyed, 100)
			within(t, 50*time.Second, "all is relayed", func() bool { return allRelayed(t, s) })
			t.Logf("after %v", time.Since(began).Round(time.Millisecond))
			if got := len(b.All()); got > 3100+r.config.MaxInFlight {
				t.Errorf("%d deliveries of 3100 rows", got)
			}
		})
	}
}

// After a statement that is not answered in its time, not even that the time is over, no statement is sent on the other
// connections. A statement that the server has ended says nothing about them.
func TestUnansweredStatementsGiveUpTheOtherConnections(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	firewall, through := pgtest.NewFirewall(t, s.URL)
	config, err := pgxpool.ParseConfig(through)
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.DialFunc, config.MaxConns = outbox.Dialer(time.Hour).DialContext, 2
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeSoon(pool) })
	d := &database{silent: pool.Reset}
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.Exec(t.Context(), "set statement_timeout = 1; select pg_sleep(60)")
	if d.read(err); err == nil {
		t.Fatal("the server has not ended the statement")
	}
	if err := other.Ping(t.Context()); err != nil {
		t.Errorf("the other connection after a statement that the server has ended: %v", err)
	}
	firewall.Forget(math.MaxInt, true, true)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = conn.Exec(ctx, "select 1")
	d.read(err)
	conn.Release()
	other.Release()
	if err := pool.Ping(t.Context()); err != nil {
		t.Errorf("a new connection: %v", err)
	}
}
