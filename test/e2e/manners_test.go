package e2e

import (
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// TestDatabaseManners watches the relay's sessions while it relays a backlog. No session is ever idle in a transaction,
// no transaction lasts long, and there are few sessions.
func TestDatabaseManners(t *testing.T) {
	t.Parallel()
	b := newKafka(t, endpoint(t, "TEST_KAFKA_URL"))
	topic, outbox := b.topic(t), newTable(t)
	outbox.insert(topic, 0, manyRows, manyKeys)
	startRelay(t, outbox.env(b.url(), "PGAPPNAME="+outbox.Name))
	var looks, idle, most int64
	var longest float64
	for outbox.count(isPending) > 0 {
		looks++
		sessions := pgtest.Value[int64](t, outbox.Schema, "select count(*) from pg_stat_activity where application_name = $1",
			outbox.Name)
		idle += pgtest.Value[int64](t, outbox.Schema,
			"select count(*) from pg_stat_activity where application_name = $1 and state like 'idle in transaction%'",
			outbox.Name)
		age := pgtest.Value[float64](t, outbox.Schema, `select coalesce(max(extract(epoch from clock_timestamp() -
			xact_start)), 0)::float8
			from pg_stat_activity where application_name = $1`, outbox.Name)
		most, longest = max(most, sessions), max(longest, age)
	}
	t.Logf("%d looks: at most %d sessions, the longest transaction %.3f s", looks, most, longest)
	const sessions = 4 + 2 // for reads and marks, ownership and LISTEN
	if looks < 10 || most < 2 || most > sessions {
		t.Errorf("at most %d sessions in %d looks", most, looks)
	}
	if idle > 0 {
		t.Errorf("idle in a transaction, seen %d times", idle)
	}
	if longest > 5 { // for a busy machine; a transaction across a publish would also be idle
		t.Errorf("a transaction lasted %.1f s", longest)
	}
	check(t, outbox, b.received(t, topic))
}

// TestEachConnectionLost ends the relay's sessions one after the other, whatever their purpose: reading, marking,
// ownership.
func TestEachConnectionLost(t *testing.T) {
	t.Parallel()
	b := newKafka(t, endpoint(t, "TEST_KAFKA_URL"))
	topic, outbox := b.topic(t), newTable(t)
	outbox.insert(topic, 0, manyRows, manyKeys)
	r := startRelay(t, outbox.env(b.url(), "PGAPPNAME="+outbox.Name))
	const victims = "from pg_stat_activity where application_name = $1"
	const faults = 12
	for i := range faults {
		outbox.awaitRelayed(manyRows * (i + 1) / (faults + 2))
		await(t, "a session is there", func() bool {
			return pgtest.Value[int64](t, outbox.Schema,
				"select count(*) from (select pg_terminate_backend(pid) "+victims+" order by random() limit 1) one",
				outbox.Name) == 1
		})
	}
	outbox.awaitDrained()
	r.awaitReady()
	checkBounded(t, outbox, b.received(t, topic), faults)
	outbox.checkUnspent(everyRow)
}

// TestDatabaseCrash stops the database in immediate mode in the middle of a backlog and starts it again, twice. The
// relay remembers the rows that the broker has accepted, and marks them when the database is back.
func TestDatabaseCrash(t *testing.T) {
	t.Parallel()
	b := newKafka(t, endpoint(t, "TEST_KAFKA_URL"))
	topic, database := b.topic(t), newServer(t, nil)
	database.start()
	pool := database.pool(database.addr)
	defer pool.Close()
	outbox := &table{Schema: &pgtest.Schema{URL: hostsURL(database.addr), Name: "public", Pool: pool}, t: t}
	outbox.Exec(t, recommended(t))
	outbox.insert(topic, 0, manyRows, manyKeys)
	r := startRelay(t, outbox.env(b.url()))
	const crashes = 2
	for i := range crashes {
		outbox.awaitRelayed(manyRows * (i + 1) / (crashes + 2))
		database.crash()
		r.awaitNotReady()
		database.start()
		pool.Reset()
		since := time.Now()
		before := outbox.count(isRelayed)
		if before == manyRows {
			t.Fatal("killed too late: nothing was left")
		}
		outbox.awaitRelayed(before + 1)
		t.Logf("rows flowed %v after the database answered", time.Since(since).Round(time.Millisecond))
	}
	outbox.awaitDrained()
	r.awaitReady()
	checkBounded(t, outbox, b.received(t, topic), crashes)
	outbox.checkUnspent(everyRow)
}
