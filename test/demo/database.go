package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/test/demo/shop"
)

const outboxTable = "outbox_messages"

// A database is a new schema in the PostgreSQL server that TEST_DATABASE_URL names.
type database struct {
	schema string
	pool   *pgxpool.Pool // the schema is its search path
}

// openDatabase makes the schema with the shop's tables, and the outbox with the given DDL.
func openDatabase(ctx context.Context, url, schema, outbox string, connections int) (_ *database, err error) {
	if url == "" {
		return nil, errors.New("TEST_DATABASE_URL is not set: run `make demo`, or eval \"$(dev/services.sh env)\" " +
			"first")
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("TEST_DATABASE_URL: %w", err)
	}
	config.ConnConfig.RuntimeParams["search_path"] = schema
	config.MaxConns = int32(connections)
	d := &database{schema: schema}
	if d.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close(context.WithoutCancel(ctx)))
		}
	}()
	for _, script := range []string{"create schema " + pgx.Identifier{schema}.Sanitize(), shop.Tables, outbox} {
		// Without arguments, pgx sends a script of several statements as it is.
		if _, err = d.pool.Exec(ctx, script); err != nil {
			return nil, fmt.Errorf("make tables: %w", err)
		}
	}
	return d, nil
}

// rows counts the rows of the outbox: those that the application committed, and those that the relay did not mark as
// relayed.
func (d *database) rows(ctx context.Context) (committed, unmarked int, err error) {
	err = d.pool.QueryRow(ctx,
		"select count(*), count(*) filter (where relayed_at is null) from outbox_messages").Scan(&committed, &unmarked)
	if err != nil {
		err = fmt.Errorf("count the outbox: %w", err)
	}
	return committed, unmarked, err
}

// A state is the number of rows that were relayed and that failed at a destination.
type state struct{ relayed, failed int }

// states counts the rows by the columns of each destination.
func (d *database) states(ctx context.Context, copies []*copyOf) (map[string]state, error) {
	states := map[string]state{}
	for _, c := range copies {
		relayed, failed := "relayed_at", "failed_at"
		if own := c.settings["COLUMNS"]; own != "" {
			relayed, failed = c.name+"_relayed_at", "null"
			if strings.Contains(own, "failed_at") {
				failed = c.name + "_failed_at"
			}
		}
		var s state
		if err := d.pool.QueryRow(ctx, "select count("+relayed+"), count("+failed+") from outbox_messages").Scan(
			&s.relayed,
			&s.failed); err != nil {
			return nil, fmt.Errorf("count the outbox: %w", err)
		}
		states[c.name] = s
	}
	return states, nil
}

func (d *database) close(ctx context.Context) error {
	defer d.pool.Close()
	if _, err := d.pool.Exec(ctx, "drop schema if exists "+pgx.Identifier{d.schema}.Sanitize()+" cascade"); err != nil {
		return fmt.Errorf("drop schema %s: %w", d.schema, err)
	}
	return nil
}
