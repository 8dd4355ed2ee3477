package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/test/testkit"
)

// outbox is the table that is drained, in a schema of its own.
type outbox struct {
	conn   *pgx.Conn
	url    string // URL with the schema as search path
	schema string
}

// The payload is 512 bytes as PostgreSQL prints it.
const fill = `insert into outbox_messages (topic, key, payload, headers)
select $2, case when i % 100 < $4::int then 'hot' else 'order-' || i % $3::int end,
	jsonb_build_object('n', lpad(i::text, 9, '0'), 'data', rpad(md5(i::text), 479, 'x')),
	jsonb_build_object('type', 'order.created', 'trace', md5(i::text))
from generate_series(1, $1::int) i order by i`

// seed describes the rows that are written into the table.
type seed struct {
	topic      string
	rows, keys int
	hot        int // percentage of the rows on one more key
}

// newOutbox makes the table that the relay recommends, with the doorbell's trigger if doorbell is set.
func (l *lab) newOutbox(ctx context.Context, doorbell bool) (*outbox, error) {
	args := []string{"schema"}
	if doorbell {
		args = append(args, "--doorbell")
	}
	command := exec.CommandContext(ctx, l.relay, args...)
	command.Env = withoutSettings(os.Environ())
	ddl, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("print schema: %w", err)
	}
	o := &outbox{schema: fmt.Sprint("bench_", time.Now().UnixNano())}
	if o.url, err = withSearchPath(l.database, o.schema); err != nil {
		return nil, err
	}
	if o.conn, err = pgx.Connect(ctx, o.url); err != nil {
		return nil, fmt.Errorf("connect to TEST_DATABASE_URL: %w", err)
	}
	// To see whether rows are pending, the index is followed from its end whatever the statistics say.
	const plans = "set enable_sort = off; set enable_bitmapscan = off; set jit = off"
	for _, statement := range []string{plans, "create schema " + o.schema, string(ddl)} {
		if _, err := o.conn.Exec(ctx, statement); err != nil {
			o.conn.Close(ctx)
			return nil, fmt.Errorf("make table: %w", err)
		}
	}
	return o, nil
}

// addDestination makes separate columns and indexes for a destination that takes every row.
func (o *outbox) addDestination(ctx context.Context, l *lab, name string) error {
	columns := ownColumns(name)
	command := exec.CommandContext(ctx, l.relay, "schema", "--destination", name)
	command.Env = append(withoutSettings(os.Environ()), "OUTBOX_DESTINATIONS=default,"+name,
		"OUTBOX_DESTINATION_"+strings.ToUpper(name)+"_COLUMNS="+columns)
	ddl, err := command.Output()
	if err != nil {
		return fmt.Errorf("print schema of destination %s: %w", name, err)
	}
	if _, err := o.conn.Exec(ctx, string(ddl)); err != nil {
		return fmt.Errorf("add destination %s: %w", name, err)
	}
	return nil
}

// ownColumns is the setting of a destination with columns of its own.
func ownColumns(name string) string {
	const columns = "relayed_at:X_relayed_at,attempt:X_attempt,failed_at:X_failed_at,last_error:X_last_error," +
		"updated_at:X_updated_at"
	return strings.ReplaceAll(columns, "X", name)
}

func (o *outbox) close(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	_, err := o.conn.Exec(ctx, "drop schema "+o.schema+" cascade")
	o.conn.Close(ctx)
	return err
}

// seed empties the table and fills it again.
func (o *outbox) seed(ctx context.Context, s seed) error {
	if _, err := o.conn.Exec(ctx, "truncate outbox_messages restart identity"); err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	if err := o.fill(ctx, s); err != nil {
		return err
	}
	return o.vacuum(ctx)
}

// vacuum makes the server do at once what it would do some time after many rows were written.
func (o *outbox) vacuum(ctx context.Context) error {
	for _, statement := range []string{"vacuum analyze outbox_messages", "checkpoint"} {
		if _, err := o.conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("vacuum: %w", err)
		}
	}
	return nil
}

// fill commits all rows at once.
func (o *outbox) fill(ctx context.Context, s seed) error {
	if _, err := o.conn.Exec(ctx, fill, s.rows, s.topic, s.keys, s.hot); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	return nil
}

// fillAndDrain commits all rows at once and waits until a relay has relayed them.
func (o *outbox) fillAndDrain(ctx context.Context, s seed) (time.Duration, error) {
	if err := o.fill(ctx, s); err != nil {
		return 0, err
	}
	started := time.Now()
	err := testkit.Until(ctx, 20*time.Millisecond, func() (bool, error) { return o.empty(ctx) })
	return time.Since(started), err
}

// empty reports whether no row is pending. It looks from the end of the index, where the last rows to be relayed are.
// Until these rows are relayed, the query costs the server almost nothing.
func (o *outbox) empty(ctx context.Context) (bool, error) {
	var empty bool
	err := o.conn.QueryRow(ctx, `select not exists (select from
		(select 1 from outbox_messages where relayed_at is null and failed_at is null order by seq desc limit 1)
		last)`).Scan(&empty)
	return empty, err
}

// head returns the first pending row, or 0 when there is none.
func (o *outbox) head(ctx context.Context) (seq int64, err error) {
	err = o.conn.QueryRow(ctx,
		"select coalesce((select seq from outbox_messages where relayed_at is null and failed_at is null order by "+
			"seq limit 1), 0)").Scan(&seq)
	return seq, err
}

// checkRelayed checks that every row is marked and that exactly as many messages have arrived.
func (o *outbox) checkRelayed(ctx context.Context, b broker, topic string, rows int) error {
	var marked, arrived int
	if err := o.conn.QueryRow(ctx,
		"select count(*) from outbox_messages where relayed_at is not null").Scan(&marked); err != nil {
		return fmt.Errorf("count marked rows: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := testkit.Until(limited, 100*time.Millisecond, func() (done bool, err error) {
		arrived, err = b.Count(ctx, topic)
		return arrived >= rows, err
	})
	if err != nil {
		return fmt.Errorf("of %d rows %d messages arrived: %w", rows, arrived, err)
	}
	if marked != rows || arrived != rows {
		return fmt.Errorf("of %d rows %d are marked and %d messages arrived", rows, marked, arrived)
	}
	return nil
}

// log returns the position in the server's write-ahead log, in bytes.
func (o *outbox) log(ctx context.Context) (position int64, err error) {
	err = o.conn.QueryRow(ctx, "select pg_current_wal_insert_lsn() - '0/0'::pg_lsn").Scan(&position)
	return position, err
}

func withSearchPath(address, schema string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("TEST_DATABASE_URL is not a URL")
	}
	query := u.Query()
	query.Set("search_path", schema)
	u.RawQuery = query.Encode()
	return u.String(), nil
}
