package e2e

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// TestSynchronousStandbyGone: commits that wait for the only synchronous standby are named as such, the relay is not
// ready meanwhile, and goes on when they are confirmed.
func TestSynchronousStandbyGone(t *testing.T) {
	t.Parallel()
	pg := newServer(t, nil)
	pg.start()
	config, err := pgxpool.ParseConfig(hostsURL(pg.addr))
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.RuntimeParams["synchronous_commit"] = "local" // of the test's own sessions
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	outbox := &table{Schema: &pgtest.Schema{URL: hostsURL(pg.addr), Name: "public", Pool: pool}, t: t}
	outbox.Exec(t, recommended(t))
	r := startRelay(t, outbox.env("stdout:"))
	r.awaitReady()
	standby := func(name string) {
		t.Helper()
		outbox.Exec(t, "alter system set synchronous_standby_names = '"+name+"'")
		outbox.Exec(t, "select pg_reload_conf()")
	}
	standby("ghost")
	await(t, "the server waits for it", func() bool {
		return pgtest.Value[string](t, outbox.Schema, "show synchronous_standby_names") == "ghost"
	})
	outbox.insert("orders", 0, 100, 10)
	r.awaitNotReady("synchronous standby", "synchronous_standby_names")
	await(t, "the log says it", func() bool {
		return containsAll(r.Log(), []string{"commits wait for a synchronous standby"})
	})
	standby("")
	r.awaitReady()
	outbox.awaitRelayed(100)
	if containsAll(r.Log(), []string{"slow trigger"}) {
		t.Error("the log blames a trigger")
	}
	r.stop()
}
