package owner

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// A connection to another database than the control connection's is detected, and the session is started again.
func TestWitness(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	config, err := pgx.ParseConfig(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	connect := func(database string) *pgx.Conn {
		c := config.Copy()
		c.Database = database
		conn, err := pgx.ConnectConfig(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		return conn
	}
	same, other := connect(config.Database), connect("template1")
	w := &Witness{}
	if err := w.Check(t.Context(), other); err != nil {
		t.Errorf("without an owner: %v", err)
	}
	o, _ := startWith(t, s.URL, s.Name, 4, 2*time.Second, nil, func(o *tested) { o.Witness = w })
	await(t, o, "owns", owns(4))
	for range 2 {
		if err := w.Check(t.Context(), same); err != nil {
			t.Error(err)
		}
	}
	if o.ended.Load() > 0 {
		t.Error("the session was ended although nothing was wrong")
	}
	if err := w.Check(t.Context(), other); !errors.Is(err, ErrElsewhere) {
		t.Errorf("the other database: %v", err)
	}
	await(t, o, "the session is replaced", func(s State) bool { return owns(4)(s) && o.ended.Load() > 0 })
	if err := w.Check(t.Context(), same); err != nil {
		t.Errorf("after that: %v", err)
	}
}

// A primary whose successor was reached is not taken, and the error says how it is taken all the same: nothing else
// makes the relay go on if the successor was given up, or a backup from before was restored.
func TestReplacedPrimary(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), pgtest.New(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	w := &Witness{}
	newest := func() error { return w.Newest(t.Context(), conn.PgConn()) }
	if err := newest(); err != nil || w.cluster == "" || len(w.timeline) != 8 {
		t.Errorf("%v; %q %q", err, w.cluster, w.timeline)
	}
	w.timeline = "0000FFFF"
	if err := newest(); err == nil || !strings.Contains(err.Error(), "restart outbox-relay") {
		t.Error(err)
	}
	w.cluster = "another"
	if err := newest(); err != nil {
		t.Error(err)
	}
}
