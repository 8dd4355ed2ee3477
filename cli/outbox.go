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
	"github.com/outbox-relay/outbox-relay/internal/route"
)

// operating holds what the commands that examine rows need. It connects to no broker.
type operating struct {
	*operate.Outbox
	config  *config.Config
	connect func(context.Context) (*pgx.Conn, error) // not through a pooler
	close   func()
}

// openOutbox reads the configuration and opens the table as each destination sees it.
func (p *program) openOutbox(ctx context.Context) (*operating, error) {
	c, err := p.loadDatabase()
	if err != nil {
		return nil, usageError(err)
	}
	return openTable(ctx, c, false)
}

// openTable opens the table as each destination sees it, with the texts that topics are made of if requested.
func openTable(ctx context.Context, c *config.Config, topics bool) (*operating, error) {
	r := relayConfig(c, slog.New(slog.DiscardHandler))
	settings, _, err := rowsOnly(c, topics)
	if err != nil {
		return nil, usageError(err)
	}
	// A pooler lends its sessions for one transaction each, with whatever settings they have.
	database := c.Database
	database.URL = database.DirectURL
	pool, closePool, err := openPool(ctx, database, &r, nil)
	if err != nil {
		return nil, usageError(err)
	}
	o := &operating{config: c, close: closePool, connect: r.Connect}
	if o.Outbox, err = viewed(ctx, pool, settings); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

// rowsOnly returns the table's configuration for commands that examine rows and publish none. They need none of the parts of
// messages except, if requested, the texts that topics are made of.
func rowsOnly(c *config.Config, topics bool) (outbox.Config, []*route.Route, error) {
	plan, routes, err := planOf(c)
	if err != nil {
		return plan, nil, err
	}
	plan.Looks, plan.Channel, plan.MaxRow = true, "", 0
	if !topics {
		plan.Extra, plan.Headers = nil, nil
	}
	return plan, routes, nil
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
		if err != nil { // commands that change rows must know the state of all destinations
			return nil, fmt.Errorf("destination %s: %w", v.Name, err)
		}
		o.Views = append(o.Views, operate.View{
			Destination: v.Name, Table: seen, Shared: v.Columns == nil, Blocks: v.BlockFailed, Optional: v.Optional,
		})
	}
	return o, nil
}

// addTopics makes known how the destinations make the topics of their messages: a relay reports those that are held under these names.
// A destination whose template names what the table lacks sends nothing, and its topics remain unknown.
func (o *operating) addTopics(ctx context.Context) {
	settings, routes, err := rowsOnly(o.config, true)
	if err != nil {
		return
	}
	found, err := outbox.Open(ctx, o.Pool, settings)
	if err != nil {
		return
	}
	for i, v := range settings.Views {
		if t, err := found.For(v); err == nil {
			o.Views[i].Topic = routes[i].Topic.SQL(t.Names().Topic.Name+"::text", t.Extra())
		}
	}
}

// direct calls a function with a connection of its own that does not go through a pooler.
func (o *operating) direct(ctx context.Context, do func(*pgx.Conn) error) error {
	conn, err := o.connect(ctx)
	if err != nil {
		return fmt.Errorf("connect to database: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // the work on it is finished
	return do(conn)
}
