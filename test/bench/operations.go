package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/test/testkit"
)

// operationsStudy measures what operators do: they look at a large backlog, and delete many old rows while traffic
// continues.
func operationsStudy(ctx context.Context, l *lab, r *report) error {
	return l.eachBroker(func(b broker) error {
		if err := l.look(ctx, b, r); err != nil {
			return err
		}
		return l.pruneBesideTraffic(ctx, b, r)
	})
}

// look measures the time of status, /status and doctor with a backlog that a paused relay leaves alone.
func (l *lab) look(ctx context.Context, b broker, r *report) (err error) {
	table, topic, remove, err := l.prepare(ctx, b, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	_, err = table.conn.Exec(ctx, `insert into outbox_messages (topic, key, payload)
		select $2, 'order-' || i % $3::int, '{"total": 42}' from generate_series(1, $1::int) i`, l.rows, topic, l.keys)
	if err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	if err := table.vacuum(ctx); err != nil {
		return err
	}
	relay, err := l.startRelay(ctx, table.url, b.url, "OUTBOX_PAUSE=true")
	if err != nil {
		return err
	}
	defer relay.Kill()
	settings := []string{
		"OUTBOX_DATABASE_URL=" + table.url, "OUTBOX_PUBLISH_URL=" + b.url,
		"OUTBOX_HTTP_ADDR=" + relay.Address,
	}
	for _, one := range []struct {
		what  string
		times int
		most  float64
		do    func() error
	}{
		{"the command status, ms", 9, 200, func() error { return l.command(ctx, settings, "status", "--json") }},
		{"/status, ms", 29, 20, func() error {
			status, _, err := relay.Ask(ctx, http.MethodGet, "/status")
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("/status answers %d", status)
			}
			return err
		}},
		{"the command doctor, ms", 3, 5000, func() error { return l.command(ctx, settings, "doctor") }},
	} {
		var took []float64
		for range one.times {
			began := time.Now()
			if err := one.do(); err != nil {
				return relay.fail(fmt.Errorf("%s: %w", one.what, err))
			}
			took = append(took, float64(time.Since(began).Microseconds())/1000)
		}
		r.judge(b.name, fmt.Sprintf("%d rows wait: %s, median", l.rows, one.what), "%.1f", middle(took),
			atMost(one.most))
		r.state(b.name, fmt.Sprintf("%d rows wait: %s, longest", l.rows, one.what), "%.1f", largest(took))
	}
	return relay.stop()
}

func (l *lab) command(ctx context.Context, settings []string, args ...string) error {
	if out, err := testkit.Command(ctx, l.relay, settings, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", args, err, out)
	}
	return nil
}

// pruneBesideTraffic compares the latency of 5,000 rows a second during a deletion of old rows, a fifth as many as the
// study has rows, with the latency before it. It also measures how long the deleting statements take.
func (l *lab) pruneBesideTraffic(ctx context.Context, b broker, r *report) (err error) {
	table, topic, remove, err := l.prepare(ctx, b, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	old := l.rows / 5
	for _, statement := range []string{
		fmt.Sprintf(`insert into outbox_messages (topic, key, payload, inserted_at, relayed_at)
			select 'old', 'order-' || i %% 1000, jsonb_build_object('data', rpad(md5(i::text), 479, 'x')), t, t
			from generate_series(1, %d) i,
			lateral (select now() - interval '10 days' + i * interval '1 ms' as t) x`, old),
		"create index on outbox_messages (relayed_at) where relayed_at is not null",
	} {
		if _, err := table.conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("old rows: %w", err)
		}
	}
	if err := table.vacuum(ctx); err != nil {
		return err
	}
	relay, err := l.startRelay(ctx, table.url, b.url)
	if err != nil {
		return err
	}
	defer relay.Kill()
	const writers, rate, lasts = 16, 5000, 20
	arrived, end := consume(ctx, b, topic, func(row int) int { return row % (l.keys / writers * writers) })
	defer func() { err = errors.Join(err, end()) }()
	p99 := func(from int) (float64, error) {
		t := traffic{
			from: from, rows: rate * lasts, perSecond: rate, writers: writers,
			keys: l.keys / writers * writers,
		}
		commits, err := t.run(ctx, table.url, topic)
		if err != nil {
			return 0, err
		}
		if err := arrived.await(ctx, from+t.rows); err != nil {
			return 0, err
		}
		var took []time.Duration
		for _, c := range commits {
			took = append(took, arrived.at(c.row).Sub(c.returned))
		}
		slices.Sort(took)
		return percentile(took, 99), nil
	}
	alone, err := p99(0)
	if err != nil {
		return err
	}
	pruning := make(chan error, 1)
	began, took := time.Now(), time.Duration(0)
	go func() {
		settings := []string{"OUTBOX_DATABASE_URL=" + table.url}
		err := l.command(ctx, settings, "prune", "--older-than", "7d", "--yes")
		took = time.Since(began)
		pruning <- err
	}()
	watched, stop := context.WithCancel(ctx)
	longest := make(chan float64, 1)
	go func() { longest <- table.longestDelete(watched) }()
	beside, err := p99(rate * lasts)
	err = errors.Join(err, <-pruning)
	stop()
	statement := <-longest
	if err != nil {
		return err
	}
	r.compare(b.name, fmt.Sprintf("p99 ms of %d rows/s while %d old rows are deleted, beside before", rate, old),
		"%.1f",
		[]float64{beside},
		[]float64{alone}, atMost(1.5))
	r.judge(b.name, "longest statement that deletes, ms (sampled)", "%.0f", statement, atMost(200))
	r.state(b.name, "deleted rows/s", "%.0f", float64(old)/took.Seconds())
	return relay.stop()
}

// longestDelete samples how long statements that delete from the outbox have been running, and returns the longest time
// in milliseconds.
func (o *outbox) longestDelete(ctx context.Context) (longest float64) {
	conn, err := pgx.Connect(ctx, o.url)
	if err != nil {
		return -1 // the verdict would not notice this, but the study then fails for other reasons
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for pause(ctx, 2*time.Millisecond) == nil {
		var ms float64
		if err := conn.QueryRow(ctx, `select coalesce(max(extract(epoch from clock_timestamp() - query_start) * 1000),
			0)::float8
			from pg_stat_activity where state = 'active' and query ilike '%delete from%'
			and query ilike '%' || $1 || '%' and pid <> pg_backend_pid()`, o.schema).Scan(&ms); err == nil {
			longest = max(longest, ms)
		}
	}
	return longest
}
