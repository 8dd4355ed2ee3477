package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	table "github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/pgsession"
	"github.com/outbox-relay/outbox-relay/sql"
)

// dayCounts are the numbers of daily partitions that are measured beside one table.
var dayCounts = []int{92, 367}

// statementCost is what a statement takes: processor time of its session, which is 0 where it cannot be seen, and time
// until the answer.
type statementCost struct{ cpu, wall float64 }

// statementNames are the statements in the order in which they are measured.
var statementNames = []string{
	"an idle poll", "a page of 1,000 rows", "500 keys", "a mark of 1 row", "marks of 1,000 rows",
}

// partitionsStudy measures what the statements take on a table with a partition for each day, beside one without
// partitions.
func partitionsStudy(ctx context.Context, l *lab, r *report) error {
	found := map[int][][]statementCost{}
	for round := range l.rounds {
		for _, days := range append([]int{0}, dayCounts...) {
			costs, err := measureStatements(ctx, days)
			if err != nil {
				return err
			}
			found[days] = append(found[days], costs)
			fmt.Printf("%d days, round %d:", days, round+1)
			for i, c := range costs {
				fmt.Printf(" %s %.0f µs (%.0f µs of the processor);", statementNames[i], c.wall, c.cpu)
			}
			fmt.Println()
		}
	}
	for _, days := range dayCounts {
		for i, name := range statementNames {
			wall := func(costs []statementCost) float64 { return costs[i].wall }
			cpu := func(costs []statementCost) float64 { return costs[i].cpu }
			on := fmt.Sprintf("%d days", days)
			r.compare(on, name+", µs", "%.0f", each(found[days], wall), each(found[0], wall), atMost(1.5))
			if slices.Min(each(found[0], cpu)) > 0 {
				r.compare(on, name+", µs of PostgreSQL's processor", "%.0f", each(found[days], cpu),
					each(found[0], cpu),
					atMost(1.5))
			}
		}
	}
	return nil
}

// measureStatements measures on a table of some thousand relayed rows that are spread over a number of days; 0 is a
// table without partitions.
func measureStatements(ctx context.Context, days int) (costs []statementCost, err error) {
	address, err := endpoint("TEST_DATABASE_URL")
	if err != nil {
		return nil, err
	}
	schema := fmt.Sprintf("bench_partitions_%d_%d", os.Getpid(), days)
	if address, err = withSearchPath(address, schema); err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, errors.New("TEST_DATABASE_URL cannot be parsed")
	}
	config.MaxConns = 1
	pgsession.Startup(config.ConnConfig.RuntimeParams)
	config.AfterConnect = pgsession.Own
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	name := sql.Table{Schema: schema, Name: "outbox_messages"}
	ddl := sql.Schema(name)
	if days > 0 {
		ddl = sql.Partitioned(name, nil, "false") + fmt.Sprintf(`do $$ begin for i in 1..%d loop execute format(
			'create table past_%%s partition of outbox_messages for values from (%%L) to (%%L)', i, current_date - i,
			current_date - i + 1);
			end loop; end $$;`, days-15) // the script makes today's and those of the next 14 days
	}
	const fill = `insert into outbox_messages (topic, key, payload, inserted_at, relayed_at)
		select 't', 'k' || i %% 1000, jsonb_build_object('pad', repeat('x', 400)), now() - %s * interval '1 day', %s
		from generate_series(1, %d) i;`
	spread := strconv.Itoa(0)
	if days > 0 {
		spread = fmt.Sprintf("(i %% %d)", days-15)
	}
	defer func() {
		_, failed := pool.Exec(context.WithoutCancel(ctx), "drop schema "+schema+" cascade")
		err = errors.Join(err, failed)
	}()
	for _, statement := range []string{
		"create schema " + schema, ddl, fmt.Sprintf(fill, spread, "now()", 50_000), "vacuum analyze outbox_messages",
	} {
		if _, err := pool.Exec(ctx, statement, pgx.QueryExecModeSimpleProtocol); err != nil {
			return nil, err
		}
	}
	t, err := table.Open(ctx, pool, table.Config{Table: name, Shards: 16})
	if err != nil {
		return nil, err
	}
	most := table.Most{Rows: 1000, Bytes: 64 << 20, First: 64 << 20}
	empty, err := t.Tail(ctx, table.Query{Most: most})
	if err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, fmt.Sprintf(fill, "0", "null", 20_000), pgx.QueryExecModeSimpleProtocol); err != nil {
		return nil, err
	}
	page, err := t.Tail(ctx, table.Query{Most: table.Most{Rows: 20_000, Bytes: 64 << 20}})
	if err != nil {
		return nil, err
	}
	var pid int
	if err := pool.QueryRow(ctx, "select pg_backend_pid()").Scan(&pid); err != nil {
		return nil, err
	}
	rows := make([]*table.Row, len(page.Rows))
	asks := make([]table.Ask, 0, 500)
	for i := range page.Rows {
		rows[i] = &page.Rows[i]
		if len(asks) < cap(asks) {
			asks = append(asks, table.Ask{Hash: rows[i].Hash, Limit: 2})
		}
	}
	last := rows[len(rows)-1].Position
	settle := func(n int) error {
		part := rows[:n]
		rows = rows[n:]
		_, err := t.Settle(ctx, part, false)
		return err
	}
	for _, m := range []struct {
		times int
		do    func() error
	}{
		{300, func() error {
			_, err := t.Tail(ctx, table.Query{After: last, Seen: &page.Visible, Low: &last.Ordinal, Most: most})
			return err
		}},
		{30, func() error {
			_, err := t.Tail(ctx, table.Query{Seen: &empty.Visible, Most: most})
			return err
		}},
		{30, func() error {
			_, err := t.Keys(ctx, table.Query{Asks: asks, Most: most})
			return err
		}},
		{300, func() error { return settle(1) }},
		{15, func() error { return settle(1000) }},
	} {
		cost, err := measureStatement(pid, m.times, m.do)
		if err != nil {
			return nil, err
		}
		costs = append(costs, cost)
	}
	return costs, nil
}

// measureStatement repeats a statement. The first two times plan it, and are not measured.
func measureStatement(pid, times int, do func() error) (c statementCost, err error) {
	for range 2 {
		if err := do(); err != nil {
			return c, err
		}
	}
	before := sessionCPU(pid)
	walls := make([]float64, 0, times)
	for range times {
		started := time.Now()
		if err := do(); err != nil {
			return c, err
		}
		walls = append(walls, float64(time.Since(started).Nanoseconds())/1e3)
	}
	return statementCost{
		cpu:  float64((sessionCPU(pid) - before).Nanoseconds()) / 1e3 / float64(times),
		wall: middle(walls),
	}, nil
}

// sessionCPU returns the processor time of a server's process, 0 if it cannot be seen.
func sessionCPU(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
	if err != nil {
		return 0
	}
	nanos, _ := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
	return time.Duration(nanos)
}
