package e2e

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// TestAlerts provokes every alert: real relays get into real trouble, and a real Prometheus observes them with the
// shipped rules, whose windows are shortened. Each alert fires, and ends when the trouble does. Then every query of the
// dashboard must return data.
func TestAlerts(t *testing.T) {
	t.Parallel()
	rules := shortened(t)
	const orders, large, broker, database, paused = "orders", "large", "broker", "database", "paused"
	p := startPrometheus(t, rules, orders, large, broker, database, paused)
	p.awaitFiring("no relay is there", func(alerts []string) bool { return slices.Contains(alerts, "OutboxRelayAbsent") })

	js := newNATS(t, endpoint(t, "TEST_NATS_URL"))
	all := []trouble{
		troubledOrders(t, p, orders, js),
		largeTable(t, p, large, js),
		withoutBroker(t, p, broker, js),
		withoutDatabase(t, p, database, js),
		pausedRelay(t, p, paused, js),
	}
	p.awaitScraped()
	p.awaitFiring("all is well", func(alerts []string) bool { return len(alerts) == 0 })

	provoked := []string{"OutboxRelayAbsent"}
	for _, one := range all {
		provoked = append(provoked, one.alerts...)
	}
	for _, name := range regexp.MustCompile(`(?m)alert: (\w+)$`).FindAllStringSubmatch(rules, -1) {
		if !slices.Contains(provoked, name[1]) {
			t.Errorf("nothing provokes %s", name[1])
		}
	}
	faults := time.Now()
	provoke(t, p, all)
	if slices.Contains(p.firing(), paused+" OutboxRelayRowsWait") {
		t.Error("rows of a paused destination wait because somebody wants that")
	}
	repaired := time.Now()
	for _, one := range all {
		one.repair()
	}
	p.awaitFiring("every alert has ended", func(alerts []string) bool { return len(alerts) == 0 })
	checkDashboard(t, p, faults, repaired)
}

// trouble is the cause of some alerts of a job. Its fault may be made more than once.
type trouble struct {
	job           string
	alerts        []string
	fault, repair func()
}

// missing lists the alerts that have never fired.
func (tr *trouble) missing(p *prometheus) (names []string) {
	fired := p.fired()
	for _, name := range tr.alerts {
		if !fired[tr.job+" "+name] {
			names = append(names, tr.job+" "+name)
		}
	}
	return names
}

// provoke makes all faults and waits until every alert has fired. Some alerts cover only the last few seconds: if the
// machine stalls for as long, they do not fire, and their fault is made again.
func provoke(t *testing.T, p *prometheus, all []trouble) {
	t.Helper()
	var missing []string
	for range 6 {
		for _, one := range all {
			if len(one.missing(p)) > 0 {
				one.fault()
			}
		}
		ticker := time.NewTicker(200 * time.Millisecond)
		defer ticker.Stop()
		for since := time.Now(); time.Since(since) < 10*time.Second; <-ticker.C {
			missing = nil
			for _, one := range all {
				missing = append(missing, one.missing(p)...)
			}
			if len(missing) == 0 {
				return
			}
		}
	}
	t.Fatalf("have not fired: %v", missing)
}

// shortened returns the shipped rules, with windows of seconds and thresholds that a small table reaches.
func shortened(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../charts/outbox-relay/files/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rules := string(text)
	for _, change := range [][2]string{
		{"[2m]", "[2s]"},
		{"[5m]", "[3s]"},
		{"[15m]", "[5s]"},
		{"[30m]", "[4s]"},
		{"[1h]", "[5s]"},
		{"[6h]", "[7s]"},
		{"[3d]", "[9s]"},
		{"offset 7d", "offset 6s"},
		{"> 60", "> 2"},
		{"> 100000", "> 1000"},
		{"> 1e9", "> 1e6"},
	} {
		if !strings.Contains(rules, change[0]) {
			t.Errorf("the rules do not contain %s", change[0])
		}
		rules = strings.ReplaceAll(rules, change[0], change[1])
	}
	return regexp.MustCompile(`(?m)^( +for: ).*$`).ReplaceAllString(rules, "${1}1s")
}

// troubledOrders relays a stream of rows, some of which get into every trouble that a row can have.
func troubledOrders(t *testing.T, p *prometheus, job string, js *natsBroker) trouble {
	t.Helper()
	outbox := newTable(t)
	_, subject := js.shared(t)
	insert := func(topic, key, more string) {
		outbox.Exec(t, `insert into outbox_messages (topic, key, payload, headers) values ($1, $2, '{}', $3)`, topic, key,
			more)
	}
	p.relay(job, outbox.env(js.url(), "OUTBOX_ON_FAILED=block"))
	trickle(t, outbox, subject+".placed")
	missing := uniqueTopic()
	return trouble{
		job: job,
		alerts: []string{
			"OutboxRelayRowsWait", "OutboxRelayLatencyBurnFast", "OutboxRelayLatencyBurnSlow", "OutboxRelayRowsFailed",
			"OutboxRelayTopicMissing", "OutboxRelayRowsHeld", "OutboxRelayOrderViolations", "OutboxRelayUnexpectedDuplicates",
		},
		fault: func() {
			insert(missing, "topic", "{}") // also waits
			insert(subject+".placed", "failed", `{"Nats-Msg-Id": "mine"}`)
			insert(subject+".placed", "failed", "{}") // held after the one that fails
			overtake(t, outbox, subject+".placed")
			id := pgtest.Value[string](t, outbox.Schema, "select gen_random_uuid()::text") // id of a message of another service
			other := &nats.Msg{Subject: subject + ".other", Header: nats.Header{"Nats-Msg-Id": {id}}}
			if _, err := js.js.PublishMsg(t.Context(), other); err != nil {
				t.Fatal(err)
			}
			outbox.Exec(t, "insert into outbox_messages (id, topic, payload) values ($1, $2, '{}')", id, subject+".placed")
			outbox.Exec(t, `insert into outbox_messages (topic, key, payload, inserted_at)
				select $1, 'late' || i, '{}', now() - interval '1 h' from generate_series(1, 300) i`, subject+".placed")
		},
		repair: func() {
			js.create(t, missing)
			outbox.Exec(t, "delete from outbox_messages where failed_at is not null")
		},
	}
}

// largeTable gets many rows that nobody deletes, and dead row versions that vacuum does not remove.
func largeTable(t *testing.T, p *prometheus, job string, js *natsBroker) trouble {
	t.Helper()
	outbox, topic := newTable(t), js.topic(t)
	outbox.Exec(t, "alter table outbox_messages set (autovacuum_enabled = false)")
	r := p.relay(job, outbox.env(js.url()))
	// A relay reads the size every half minute; a new relay reads it at once.
	restart := func() {
		p.scrape(job, nil)
		r.stop()
		r = p.relay(job, outbox.env(js.url()))
	}
	return trouble{
		job: job, alerts: []string{"OutboxRelayTableBloat", "OutboxRelayPruneBehind"},
		fault: func() {
			outbox.insert(topic, 0, 4000, 100)
			outbox.awaitDrained()
			restart()
		},
		repair: func() {
			// a vacuum would leave versions that a transaction of another test may still see
			outbox.Exec(t, "truncate outbox_messages")
			await(t, "the statistics know", func() bool {
				return pgtest.Value[int64](t, outbox.Schema,
					"select n_dead_tup from pg_stat_all_tables where relid = 'outbox_messages'::regclass") == 0
			})
			restart()
		},
	}
}

// overtake commits a row after a younger one of its key has been relayed.
func overtake(t *testing.T, outbox *table, topic string) {
	t.Helper()
	const row = "insert into outbox_messages (topic, key, payload) values ($1, 'overtaken', '{}')"
	const relayed = "key = 'overtaken' and relayed_at is not null"
	before := outbox.count(relayed)
	tx, err := outbox.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), row, topic); err != nil {
		t.Fatal(err)
	}
	outbox.Exec(t, row, topic)
	await(t, "the younger row is relayed", func() bool { return outbox.count(relayed) > before })
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// withoutBroker makes a relay lose its broker.
func withoutBroker(t *testing.T, p *prometheus, job string, js *natsBroker) trouble {
	t.Helper()
	outbox, topic := newTable(t), js.topic(t)
	gate, through := newGate(t, js.url())
	p.relay(job, outbox.env(through))
	trickle(t, outbox, topic)
	return trouble{
		job: job, alerts: []string{"OutboxRelayDestinationDown", "OutboxRelayRowsWait"}, fault: gate.shut,
		repair: gate.open,
	}
}

// withoutDatabase makes a relay lose its database.
func withoutDatabase(t *testing.T, p *prometheus, job string, js *natsBroker) trouble {
	t.Helper()
	outbox := newTable(t)
	gate, through := newGate(t, outbox.URL)
	p.relay(job, settings{"OUTBOX_DATABASE_URL=" + through, "OUTBOX_PUBLISH_URL=" + js.url()})
	return trouble{
		job: job, alerts: []string{"OutboxRelayDatabaseDown", "OutboxRelayNothingOwned", "OutboxRelayNotReady"},
		fault: gate.shut, repair: gate.open,
	}
}

// pausedRelay makes a relay whose destination a file pauses.
func pausedRelay(t *testing.T, p *prometheus, job string, js *natsBroker) trouble {
	t.Helper()
	outbox, topic, file := newTable(t), js.topic(t), filepath.Join(t.TempDir(), "pause")
	p.relay(job, outbox.env(js.url(), "OUTBOX_PAUSE_FILE="+file))
	trickle(t, outbox, topic)
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return trouble{job: job, alerts: []string{"OutboxRelayPaused"}, fault: func() {
		write("true")
	}, repair: func() { write("false") }}
}

// relay starts the relay of a job.
func (p *prometheus) relay(job string, env settings) *relay {
	p.t.Helper()
	r := startRelay(p.t, env)
	r.awaitReady()
	p.scrape(job, r)
	return r
}

// awaitScraped waits until every job has been scraped often enough for rates, which count from the first sample on.
func (p *prometheus) awaitScraped() {
	p.t.Helper()
	await(p.t, "every relay is scraped", func() bool {
		var data struct {
			Result []any `json:"result"`
		}
		if err := p.ask("query", url.Values{"query": {"count_over_time(outbox_relay_build_info[1m]) >= 3"}},
			&data); err != nil {
			p.t.Fatal(err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(data.Result) == len(p.relays)
	})
}

// trickle inserts a few rows ten times a second until the test ends.
func trickle(t *testing.T, outbox *table, topic string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	t.Cleanup(func() { stop(); group.Wait() })
	group.Go(func() {
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		for ctx.Err() == nil {
			_, err := outbox.Pool.Exec(ctx, `insert into outbox_messages (topic, key, payload)
				select $1, 'k' || i, '{}' from generate_series(1, 5) i`, topic)
			if err != nil && ctx.Err() == nil {
				t.Errorf("insert: %v", err)
				return
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
			}
		}
	})
}
