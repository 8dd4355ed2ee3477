package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// insertion describes the conditions of an application's inserts.
type insertion struct {
	name     string
	relay    bool
	least    bool // the yardstick runs instead of the relay
	doorbell bool
	notify   bool // a trigger notifies in each transaction, as with other relays
	missing  bool // the rows' topic is missing
	settings []string
	copies   int // number of destinations with columns of their own, beside the one that uses the table's
	target   *bound
}

// insertsStudy lets pgbench insert single rows, without a relay and beside one. Relay and broker share the machine with
// the database, so the ratio includes their processor time.
func insertsStudy(ctx context.Context, l *lab, r *report) error {
	pgbench, err := findPgbench()
	if err != nil {
		return err
	}
	yardstick, err := l.yardstick(ctx)
	if err != nil {
		return err
	}
	kinds := []insertion{
		{name: "no relay"},
		{name: "relay, doorbell trigger", relay: true, doorbell: true, target: new(atLeast(0.75))},
		{name: "relay, polling alone", relay: true, settings: []string{"OUTBOX_LISTEN_CHANNEL="}},
		{name: "relay, plain NOTIFY trigger", relay: true, notify: true},
		{name: "yardstick that polls", least: true},
		{name: "relay, doorbell trigger, missing topic", relay: true, doorbell: true, missing: true},
		{name: "no relay, columns and indexes of a second destination", copies: 1},
		{name: "no relay, columns and indexes of three destinations", copies: 2, target: new(atLeast(1 / 1.3))},
	}
	return l.eachBroker(func(b broker) error {
		for _, clients := range []int{8, 32} {
			rates := make([][]float64, len(kinds))
			relayed := make([][]float64, len(kinds)) // share of the rows that were relayed when pgbench ended
			for round := range l.rounds {
				for i, kind := range kinds {
					rate, share, err := l.insert(ctx, pgbench, yardstick, b, kind, clients)
					if err != nil {
						return fmt.Errorf("%s: %w", kind.name, err)
					}
					fmt.Printf("%s, %d clients, %s, round %d: %.0f transactions/s, %.0f %% relayed meanwhile\n", b.name,
						clients,
						kind.name, round+1, rate,
						100*share)
					rates[i] = append(rates[i], rate)
					relayed[i] = append(relayed[i], 100*share)
				}
			}
			for i, kind := range kinds[1:] {
				what := fmt.Sprintf("transactions/s, %d clients, %s", clients, kind.name)
				if kind.target != nil {
					r.compare(b.name, what, "%.0f", rates[i+1], rates[0], *kind.target)
				} else {
					r.contrast(b.name, what, "%.0f", rates[i+1], rates[0])
				}
			}
			for i, kind := range kinds {
				if kind.least || kind.doorbell && !kind.missing {
					r.state(b.name, fmt.Sprintf("%% of the rows relayed when pgbench ended, %d clients, %s", clients,
						kind.name),
						"%.0f",
						middle(relayed[i]))
				}
			}
		}
		return nil
	})
}

const plainNotify = `create function ring() returns trigger language plpgsql as $$ begin perform
	pg_notify('outbox_messages', ''); 
return null; end $$;
create trigger ring after insert on outbox_messages for each statement execute function ring()`

// insert returns the transactions per second, and the share of their rows that was relayed in the same time.
func (l *lab) insert(ctx context.Context, pgbench, yardstick string, b broker, kind insertion, clients int) (
	rate, relayed float64, err error,
) {
	topic, remove, err := b.topic(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	table, err := l.newOutbox(ctx, kind.doorbell)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, table.close(ctx)) }()
	for i := range kind.copies {
		if err := table.addDestination(ctx, l, fmt.Sprint("copy", i+1)); err != nil {
			return 0, 0, err
		}
	}
	if kind.notify {
		if _, err := table.conn.Exec(ctx, plainNotify); err != nil {
			return 0, 0, err
		}
	}
	if kind.relay {
		relay, err := l.startRelay(ctx, table.url, b.url, kind.settings...)
		if err != nil {
			return 0, 0, err
		}
		defer relay.Kill() // the rows that it has not relayed do not matter
	}
	if kind.least {
		least, err := start(exec.CommandContext(ctx, yardstick, "--database", table.url, "--url", b.url, "--topic",
			topic,
			"--poll", "50ms"))
		if err != nil {
			return 0, 0, err
		}
		defer least.Kill()
	}
	if kind.missing {
		topic += "-missing"
	}
	script := filepath.Join(l.dir, "insert.sql")
	text := fmt.Sprintf(`\set n random(1, 1000000)
insert into outbox_messages (topic, key, payload, headers) values ('%s', 'order-' || :n %% 1000,
	jsonb_build_object('n', lpad(:n::text, 9, '0'), 'data', rpad(md5(:n::text), 479, 'x')),
	'{"type": "order.created"}');
`, topic)
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		return 0, 0, err
	}
	if _, err := table.conn.Exec(ctx, "checkpoint"); err != nil {
		return 0, 0, err
	}
	command := exec.CommandContext(ctx, pgbench, "--no-vacuum", "--file", script, "--client", fmt.Sprint(clients),
		"--jobs", "2", "--time",
		"8", l.database)
	command.Env = append(os.Environ(), "PGOPTIONS=-c search_path="+table.schema)
	output, err := command.CombinedOutput()
	if err != nil {
		return 0, 0, fmt.Errorf("pgbench: %w: %s", err, output)
	}
	match := regexp.MustCompile(`tps = ([0-9.]+)`).FindSubmatch(output)
	if match == nil {
		return 0, 0, fmt.Errorf("pgbench said no rate: %s", output)
	}
	if rate, err = strconv.ParseFloat(string(match[1]), 64); err != nil {
		return 0, 0, err
	}
	err = table.conn.QueryRow(ctx, "select count(relayed_at)::float8 / count(*) from outbox_messages").Scan(&relayed)
	return rate, relayed, err
}

// findPgbench looks on the PATH and in the folders that Debian uses.
func findPgbench() (string, error) {
	if path, err := exec.LookPath("pgbench"); err == nil {
		return path, nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pgbench") // the pattern is well formed
	if len(found) == 0 {
		return "", errors.New("no pgbench: install PostgreSQL's client programs")
	}
	return slices.Max(found), nil
}
