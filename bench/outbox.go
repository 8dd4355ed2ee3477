package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// outbox is the table that is drained, in a schema of its own.
type outbox struct {
	conn   *pgx.Conn
	url    string // connects with the schema as search path
	schema string
}

// The payload is 512 bytes as PostgreSQL prints it.
const fill = `insert into outbox_messages (topic, key, payload, headers)
select $2, 'order-' || i % $3::int, jsonb_build_object('n', lpad(i::text, 9, '0'), 'data', rpad(md5(i::text), 479, 'x')),
	jsonb_build_object('type', 'order.created', 'trace', md5(i::text))
from generate_series(1, $1::int) i order by i`

// newOutbox makes the schema and the table that ddl describes.
func newOutbox(ctx context.Context, database, ddl string) (*outbox, error) {
	config, err := pgx.ParseConfig(database)
	if err != nil {
		return nil, err
	}
	o := &outbox{schema: fmt.Sprint("bench_", time.Now().UnixNano())}
	config.RuntimeParams["search_path"] = o.schema
	if o.url, err = withSearchPath(database, o.schema); err != nil {
		return nil, err
	}
	if o.conn, err = pgx.ConnectConfig(ctx, config); err != nil {
		return nil, fmt.Errorf("connect to TEST_DATABASE_URL: %w", err)
	}
	for _, statement := range []string{"create schema " + o.schema, ddl} {
		if _, err := o.conn.Exec(ctx, statement); err != nil {
			return nil, fmt.Errorf("make table: %w", err)
		}
	}
	return o, nil
}

func (o *outbox) close(ctx context.Context) error {
	_, err := o.conn.Exec(ctx, "drop schema "+o.schema+" cascade")
	o.conn.Close(ctx)
	return err
}

// seed fills the table anew and lets the server settle down.
func (o *outbox) seed(ctx context.Context, topic string, rows, keys int) error {
	if _, err := o.conn.Exec(ctx, "truncate outbox_messages restart identity"); err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	if _, err := o.conn.Exec(ctx, fill, rows, topic, keys); err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	for _, statement := range []string{"vacuum analyze outbox_messages", "checkpoint"} {
		if _, err := o.conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("seed: %w", err)
		}
	}
	return nil
}

// empty reports whether no row is pending. It looks from the end of the index, where the last rows to be
// relayed are, so that asking costs the server next to nothing until then.
func (o *outbox) empty(ctx context.Context) (bool, error) {
	var empty bool
	err := o.conn.QueryRow(ctx, `select not exists (select from
		(select 1 from outbox_messages where relayed_at is null and failed_at is null order by seq desc limit 1) last)`).Scan(&empty)
	return empty, err
}

// marked returns how many rows are marked.
func (o *outbox) marked(ctx context.Context) (rows int, err error) {
	err = o.conn.QueryRow(ctx, "select count(*) from outbox_messages where relayed_at is not null").Scan(&rows)
	return rows, err
}

// log returns the position in the server's write-ahead log, in bytes.
func (o *outbox) log(ctx context.Context) (position int64, err error) {
	err = o.conn.QueryRow(ctx, "select pg_current_wal_insert_lsn() - '0/0'::pg_lsn").Scan(&position)
	return position, err
}
