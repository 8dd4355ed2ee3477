package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/relay"
)

// connectionsTo returns how to connect to the database. User, password and certificates are read again for each
// connection.
func connectionsTo(url config.Secret) (*pgxpool.Config, error) {
	c, err := config.ParseDatabase(url.Loaded())
	if err == nil {
		c.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error { return refresh(c, url) }
	}
	return c, err
}

// openPool makes the pool of a relay, and sets in the relay's configuration how to connect past a pooler.
func openPool(ctx context.Context, d config.Database, r *relay.Config) (*pgxpool.Pool, func(), error) {
	to, err := connectionsTo(d.URL)
	if err != nil {
		return nil, nil, err
	}
	if d.DirectURL.Loaded() != d.URL.Loaded() {
		if r.Direct, err = connectionsTo(d.DirectURL); err != nil {
			return nil, nil, err
		}
	}
	return r.NewPool(ctx, to)
}

// refresh reads the present user and password, and the certificates unless the hosts have changed: new hosts need a
// restart.
func refresh(c *pgx.ConnConfig, url config.Secret) error {
	text, err := url.Read()
	if err != nil {
		return err
	}
	parsed, err := config.ParseDatabase(text)
	if err != nil {
		return fmt.Errorf("the database URL, or a file that it names, has changed and %w", err)
	}
	now := parsed.ConnConfig
	c.User, c.Password = now.User, now.Password
	if slices.EqualFunc(c.Fallbacks, now.Fallbacks, sameHost) && c.Host == now.Host && c.Port == now.Port {
		c.TLSConfig, c.Fallbacks = now.TLSConfig, now.Fallbacks
	}
	return nil
}

func sameHost(a, b *pgconn.FallbackConfig) bool { return a.Host == b.Host && a.Port == b.Port }
