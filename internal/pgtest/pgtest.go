// Package pgtest gives each test a schema of its own in a real PostgreSQL.
package pgtest

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A Schema is a fresh schema, dropped when the test ends.
type Schema struct {
	URL  string // connects with the schema as search path
	Name string
	Pool *pgxpool.Pool
}

// New makes a schema in the database that TEST_DATABASE_URL names. If it is "none", the test is skipped.
func New(t testing.TB) *Schema {
	t.Helper()
	base := os.Getenv("TEST_DATABASE_URL")
	switch base {
	case "none":
		t.Skip("needs PostgreSQL")
	case "":
		t.Fatal("TEST_DATABASE_URL is not set: run `make test`, or eval \"$(dev/services.sh env)\" first")
	}
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal("TEST_DATABASE_URL is not a URL")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	s := &Schema{Name: "t_" + strings.ToLower(rand.Text()[:12])}
	exec(t, ctx, base, "create schema "+s.Name)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		exec(t, ctx, base, "drop schema "+s.Name+" cascade")
	})
	query := u.Query()
	query.Set("search_path", s.Name)
	u.RawQuery = query.Encode()
	s.URL = u.String()
	if s.Pool, err = pgxpool.New(ctx, s.URL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Pool.Close)
	return s
}

// PoolWith returns another pool, with a configuration of its own.
func (s *Schema) PoolWith(t testing.TB, change func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config := s.Pool.Config()
	change(config)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func exec(t testing.TB, ctx context.Context, url, statement string) {
	t.Helper()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatalf("connect to TEST_DATABASE_URL: %v", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// Exec runs statements that must succeed.
func (s *Schema) Exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	if _, err := s.Pool.Exec(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// Value returns the one value that a query selects.
func Value[T any](t testing.TB, s *Schema, query string, args ...any) T {
	t.Helper()
	var value T
	if err := s.Pool.QueryRow(t.Context(), query, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return value
}
