package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/test/testkit"
)

// drained is the result of destinations that drained the same table.
type drained struct {
	rates    []float64     // rows/s of each destination, over all rows
	database time.Duration // processor time of the server
	updates  float64       // updates of each row
}

// slowest is the rate at which the last destination finished.
func (d drained) slowest() float64 { return slices.Min(d.rates) }

// second is a destination in addition to the one called default.
const second = "audit"

// destinationsStudy compares one destination with two. The two relay the same rows, each in columns of its own, or
// divide the rows. Then one of the two is in trouble, compared with the same one paused.
func destinationsStudy(ctx context.Context, l *lab, r *report) error {
	return l.eachBroker(func(b broker) error {
		if err := l.healthy(ctx, b, r); err != nil {
			return err
		}
		return l.besideTrouble(ctx, b, r)
	})
}

func (l *lab) healthy(ctx context.Context, b broker, r *report) error {
	variants := []struct {
		name    string
		several bool // two destinations
		copies  bool // each destination takes each row
		found   []drained
	}{
		{name: "one alone"},
		{name: "columns of their own", several: true, copies: true},
		{name: "common columns", several: true},
	}
	for round := range l.rounds + 1 {
		for i := range variants {
			v := &variants[i]
			if !strings.Contains(v.name, l.only) && i > 0 {
				continue
			}
			d, err := l.drainTo(ctx, b, v.several, v.copies)
			if err != nil {
				return fmt.Errorf("%s: %w", v.name, err)
			}
			fmt.Printf("%s, %s, round %d: %.0f rows/s, PostgreSQL %.1f µs/row, %.2f updates of a row\n", b.name, v.name,
				round,
				d.rates,
				l.micros(d), d.updates)
			if round > 0 { // the broker is warmed up
				v.found = append(v.found, d)
			}
		}
	}
	alone, copies, parts := variants[0].found, variants[1].found, variants[2].found
	if copies != nil {
		for i, name := range []string{"first", "second"} {
			rate := func(d drained) float64 { return d.rates[i] }
			r.compare(b.name, "columns of their own: rows/s of the "+name, "%.0f", each(copies, rate),
				each(alone, drained.slowest), atLeast(0.4))
		}
		if middle(each(alone, l.micros)) > 0 { // the processor time is visible
			r.compare(b.name, "columns of their own: PostgreSQL µs/row", "%.1f", each(copies, l.micros),
				each(alone, l.micros),
				atMost(1.4))
		}
		updates := func(d drained) float64 { return d.updates }
		r.contrast(b.name, "columns of their own: updates of a row", "%.2f", each(copies, updates),
			each(alone, updates))
	}
	if parts != nil {
		r.compare(b.name, "common columns: rows/s together", "%.0f", each(parts, drained.slowest),
			each(alone, drained.slowest), atLeast(0.9))
	}
	return nil
}

// micros is the server's processor time for each row, in microseconds.
func (l *lab) micros(d drained) float64 { return d.database.Seconds() * 1e6 / float64(l.rows) }

// fillParts inserts rows, half of them for each of two topics.
const fillParts = `insert into outbox_messages (topic, key, payload, headers)
select ($2::text[])[1 + i % 2], 'order-' || i % $3::int, jsonb_build_object('n', lpad(i::text, 9, '0'), 'data', 
rpad(md5(i::text), 479, 'x')),
	jsonb_build_object('type', 'order.created', 'trace', md5(i::text))
from generate_series(1, $1::int) i order by i`

// drainTo fills a table and lets a relay drain it, to one destination or to two, each of which takes all rows or half
// of them.
func (l *lab) drainTo(ctx context.Context, b broker, several, copies bool) (d drained, err error) {
	table, topic, remove, err := l.prepare(ctx, b, false)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	topics, columns, settings := []string{topic}, []string{"relayed_at"}, []string(nil)
	if several {
		other, removeOther, err := b.topic(ctx)
		if err != nil {
			return d, err
		}
		defer func() { err = errors.Join(err, removeOther()) }()
		topics, settings = append(topics, other), two(b.url, b.url)
		if copies {
			settings = append(settings, destination("AUDIT", "COLUMNS", ownColumns(second)),
				destination("AUDIT", "TOPIC", other))
			columns = append(columns, second+"_relayed_at")
			err = table.addDestination(ctx, l, second)
		} else {
			settings = append(settings, destination("DEFAULT", "TOPICS", topic), destination("AUDIT", "TOPICS", other))
		}
		if err != nil {
			return d, err
		}
	}
	if several && !copies {
		_, err = table.conn.Exec(ctx, fillParts, l.rows, topics, l.keys)
	} else {
		err = table.fill(ctx, seed{topic: topic, rows: l.rows, keys: l.keys})
	}
	if err != nil {
		return d, fmt.Errorf("fill: %w", err)
	}
	if err := table.vacuum(ctx); err != nil {
		return d, err
	}
	before := used(l.databasePID)
	relay, err := l.startRelay(ctx, table.url, relayURL(b.url, several), settings...)
	if err != nil {
		return d, err
	}
	defer relay.Kill()
	for _, column := range columns {
		took, err := table.awaitMarks(ctx, column, relay.Started)
		if err != nil {
			return d, relay.fail(err)
		}
		d.rates = append(d.rates, float64(l.rows)/took.Seconds())
	}
	d.database = used(l.databasePID) - before
	if err := relay.stop(); err != nil {
		return d, err
	}
	if err := pause(ctx, 1500*time.Millisecond); err != nil { // statistics are reported within a second
		return d, err
	}
	err = table.conn.QueryRow(ctx,
		"select n_tup_upd::float8 / $1::int from pg_stat_user_tables where relid = 'outbox_messages'::regclass",
		l.rows).Scan(&d.updates)
	return d, err
}

// awaitMarks waits until every row has a mark in a column, and returns the time since the start.
func (o *outbox) awaitMarks(ctx context.Context, column string, started time.Time) (took time.Duration, err error) {
	statement := fmt.Sprintf(
		"select not exists (select from (select 1 from outbox_messages where %s is null and %s is null order by seq "+
			"desc limit 1) last)",
		column, strings.Replace(column, "relayed_at", "failed_at", 1))
	var asked time.Time
	err = testkit.Until(ctx, 20*time.Millisecond, func() (done bool, err error) {
		asked = time.Now()
		err = o.conn.QueryRow(ctx, statement).Scan(&done)
		return done, err
	})
	return asked.Sub(started), err
}

// two returns the settings of two destinations at brokers.
func two(first, other string) []string {
	return []string{
		"OUTBOX_DESTINATIONS=default," + second, destination("DEFAULT", "PUBLISH_URL", first),
		destination("AUDIT", "PUBLISH_URL", other),
	}
}

func destination(name, setting, value string) string {
	return "OUTBOX_DESTINATION_" + name + "_" + setting + "=" + value
}

// relayURL is the broker's URL for a relay without named destinations, or "" for one with several.
func relayURL(url string, several bool) string {
	if several {
		return ""
	}
	return url
}
