package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/doctor"
	"github.com/outbox-relay/outbox-relay/relay"
)

// connectionsTo returns how to connect to the database: each time with user and password as they are then. certificates, which may be nil,
// takes note of what the server shows. An error is about what the configuration's own check has let through. The library's text is not
// shown: it masks passwords only as well as it can.
func connectionsTo(url config.Secret, variable string, certificates *doctor.Certificates) (*pgxpool.Config, error) {
	c, err := pgxpool.ParseConfig(url.Loaded())
	if err != nil {
		return nil, errors.New(variable + " has a parameter that the relay cannot use: check the names and values behind the question mark")
	}
	certificates.NoteDatabase(c.ConnConfig.TLSConfig)
	for _, other := range c.ConnConfig.Fallbacks {
		certificates.NoteDatabase(other.TLSConfig)
	}
	c.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error { return refresh(c, url) }
	return c, nil
}

// openPool makes the pool of a relay, and says in its configuration how to go past a pooler.
func openPool(ctx context.Context, d config.Database, r *relay.Config, certificates *doctor.Certificates) (*pgxpool.Pool, func(), error) {
	to, err := connectionsTo(d.URL, "OUTBOX_DATABASE_URL", certificates)
	if err != nil {
		return nil, nil, err
	}
	if d.DirectURL.Loaded() != d.URL.Loaded() {
		if r.Direct, err = connectionsTo(d.DirectURL, "OUTBOX_DATABASE_DIRECT_URL", certificates); err != nil {
			return nil, nil, err
		}
	}
	return r.NewPool(ctx, to)
}

// refresh takes user and password as they are now.
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
		return errors.New("the database URL has changed and cannot be used")
	}
	c.User, c.Password = now.User, now.Password
	return nil
}
