package cli

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/operate"
	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/sql"
)

// operating is what the commands that look at rows need. It reaches no broker.
type operating struct {
	*operate.Outbox
	config  *config.Config
	connect func(context.Context) (*pgx.Conn, error) // not through a pooler
	close   func()
}

// openOutbox reads the configuration and opens the table as each destination sees it.
func openOutbox(ctx context.Context) (*operating, error) {
	c, err := config.LoadDatabase()
	if err != nil {
		return nil, usageError(err)
	}
	return openTable(ctx, c, nil)
}

// openTable opens the table as each destination sees it, with further texts that each row carries.
func openTable(ctx context.Context, c *config.Config, extra []outbox.Extra) (*operating, error) {
	table, err := sql.ParseTable(c.Table.Name)
	if err != nil {
		return nil, usageError(fmt.Errorf("OUTBOX_TABLE: %w", err))
	}
	links := &outbox.Links{Patience: mostPatience, Logger: slog.New(slog.DiscardHandler)}
	pool, err := newPool(ctx, c.Database, workOther, len(c.Destinations), nil, nil, links)
	if err != nil {
		return nil, usageError(err)
	}
	o := &operating{config: c, close: func() { links.ClosePool(pool) }}
	if o.connect, err = newConnect(c.Database, nil, 2*links.Patience); err != nil {
		o.close()
		return nil, usageError(err)
	}
	settings := outbox.Config{Table: table, Columns: c.Table.Columns, Preferred: preferred(c), Key: c.Table.Key,
		Delete: c.Settle == config.SettleDelete, Shards: c.Shards, Views: views(c), Looks: true}
	if extra != nil { // a header may be in a column
		settings.Extra, settings.Headers = extra, c.Table.Headers()
	}
	if o.Outbox, err = viewed(ctx, pool, settings); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

// viewed opens the table as each destination sees it.
func viewed(ctx context.Context, pool *pgxpool.Pool, settings outbox.Config) (*operate.Outbox, error) {
	found, err := outbox.Open(ctx, pool, settings)
	if err != nil {
		return nil, err
	}
	o := &operate.Outbox{Pool: pool, Shards: settings.Shards}
	for _, v := range settings.Views {
		seen, err := found.For(v)
		if err != nil { // those who change rows must know the state of all destinations
			return nil, fmt.Errorf("destination %s: %w", v.Name, err)
		}
		o.Views = append(o.Views, operate.View{Destination: v.Name, Table: seen, Shared: v.Columns == nil})
	}
	return o, nil
}

// direct runs something with a connection of its own that does not go through a pooler.
func (o *operating) direct(ctx context.Context, do func(*pgx.Conn) error) error {
	conn, err := o.connect(ctx)
	if err != nil {
		return fmt.Errorf("connect to database: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // what it had to do is done
	return do(conn)
}
