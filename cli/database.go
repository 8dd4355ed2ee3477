package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/relay"
)

// connectionsTo returns how to connect to the database. User, password and certificates are read again for each
// connection. An error is about something that the configuration's own check has let through. The library's text is not
// shown, since it does not mask passwords reliably.
func connectionsTo(url config.Secret, variable string) (*pgxpool.Config, error) {
	c, err := pgxpool.ParseConfig(url.Loaded())
	if err != nil {
		return nil, errors.New(variable + " has a parameter that the relay cannot use: check the names and values " +
			"after the question mark")
	}
	c.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error { return refresh(c, url) }
	return c, nil
}

// openPool makes the pool of a relay, and sets in the relay's configuration how to connect past a pooler.
func openPool(ctx context.Context, d config.Database, r *relay.Config) (*pgxpool.Pool, func(), error) {
	to, err := connectionsTo(d.URL, "OUTBOX_DATABASE_URL")
	if err != nil {
		return nil, nil, err
	}
	if d.DirectURL.Loaded() != d.URL.Loaded() {
		if r.Direct, err = connectionsTo(d.DirectURL, "OUTBOX_DATABASE_DIRECT_URL"); err != nil {
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
	if err := config.CheckDatabase(text); err != nil {
		return fmt.Errorf("the database URL has changed and %w", err)
	}
	now, err := pgx.ParseConfig(text)
	if err != nil {
		return errors.New("the database URL, or a file that it names, has changed and cannot be used")
	}
	c.User, c.Password = now.User, now.Password
	if slices.EqualFunc(c.Fallbacks, now.Fallbacks, sameHost) && c.Host == now.Host && c.Port == now.Port {
		c.TLSConfig, c.Fallbacks = now.TLSConfig, now.Fallbacks
	}
	return nil
}

func sameHost(a, b *pgconn.FallbackConfig) bool { return a.Host == b.Host && a.Port == b.Port }
