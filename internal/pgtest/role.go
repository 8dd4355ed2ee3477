package pgtest

import (
	"context"
	"crypto/rand"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// NewRole creates a role that may only log in. When the test ends, the role and its rights are dropped before the
// schema; whatever uses the role must have ended by then.
func (s *Schema) NewRole(t testing.TB) (name string) {
	t.Helper()
	name = s.Name + "_" + strings.ToLower(rand.Text()[:12])
	s.Exec(t, "create role "+name+" login")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if _, err := s.Pool.Exec(ctx, "drop owned by "+name+"; drop role "+name); err != nil {
			t.Errorf("drop role %s: %v", name, err)
		}
	})
	return name
}

// PoolAs returns a pool whose sessions have the rights of a role.
func (s *Schema) PoolAs(t testing.TB, role string) *pgxpool.Pool {
	t.Helper()
	return s.PoolWith(t, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["role"] = role })
}

// URLAs returns the schema's address for a role that logs in without a password.
func (s *Schema) URLAs(t testing.TB, role string) string {
	t.Helper()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(role)
	return u.String()
}
