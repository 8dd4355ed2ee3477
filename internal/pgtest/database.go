package pgtest

import (
	"context"
	"crypto/rand"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/pgsession"
)

// NewDatabase creates another database on the same server, with options as SQL writes them, and returns its schema
// public. The database is dropped when the test ends. Sessions of the pool have the usual settings, whatever the
// database carries.
func NewDatabase(t testing.TB, options ...string) *Schema {
	t.Helper()
	s := New(t)
	name := "t_" + strings.ToLower(rand.Text()[:12])
	s.Exec(t, "create database "+name+" "+strings.Join(options, " "))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // it waits for a checkpoint
		defer cancel()
		if _, err := s.Pool.Exec(ctx, "drop database "+name+" with (force)"); err != nil {
			t.Errorf("drop database %s: %v", name, err)
		}
	})
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal("TEST_DATABASE_URL is not a URL")
	}
	u.Path = "/" + name
	query := u.Query()
	query.Set("search_path", "public")
	u.RawQuery = query.Encode()
	d := &Schema{URL: u.String(), Name: "public"}
	config, err := pgxpool.ParseConfig(d.URL)
	if err != nil {
		t.Fatal(err)
	}
	pgsession.Startup(config.ConnConfig.RuntimeParams)
	config.AfterConnect = pgsession.Own
	if d.Pool, err = pgxpool.NewWithConfig(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Pool.Close)
	return d
}
