package e2e

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// failing makes every tenth inserted row one that NATS cannot carry because of a header, and returns a function that
// reports which rows these are.
func (tb *table) failing() func(n int) bool {
	tb.t.Helper()
	tb.Exec(tb.t, `create function make_illegal() returns trigger language plpgsql as $illegal$
		begin new.headers = '{"lines": "a\nb"}'; return new; end $illegal$`)
	tb.Exec(tb.t, `create trigger make_illegal before insert on outbox_messages for each row when
		((new.payload->>'n')::int % 10 = 3)
		execute function make_illegal()`)
	return func(n int) bool { return n%10 == 3 }
}

// switches are files that pause destinations.
type switches struct {
	t   testing.TB
	dir string
}

func (s switches) file(name string) string { return filepath.Join(s.dir, name) }

// set pauses or resumes destinations, and waits until the relay has noticed.
func (s switches) set(r *relay, paused bool, names ...string) {
	s.t.Helper()
	for _, name := range names {
		if err := os.WriteFile(s.file(name), []byte(map[bool]string{true: "true", false: "false"}[paused]),
			0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	if r == nil {
		return
	}
	await(s.t, "the relay has seen the pause files", func() bool {
		_, body := r.get("/readyz?verbose")
		return !slices.ContainsFunc(names, func(name string) bool {
			return strings.Contains(body, "destination "+name+" ok: paused") != paused
		})
	})
}

// TestDeadLettersGoOnWithoutTheirOrigin: an origin that is down, paused or renamed delays neither dead letters nor
// notices, and nothing is lost or sent twice.
func TestDeadLettersGoOnWithoutTheirOrigin(t *testing.T) {
	t.Parallel()
	address := endpoint(t, "TEST_NATS_URL")
	nats := newNATS(t, address)
	gate, through := newGate(t, address)
	topic, dead, notice := nats.topic(t), nats.topic(t), nats.topic(t)
	outbox := newTable(t)
	illegal := outbox.failing()
	pauses := switches{t, t.TempDir()}
	env := func(origin string) settings {
		of := "OUTBOX_DESTINATION_" + strings.ToUpper(origin)
		return outbox.env(nats.url(), "OUTBOX_SHARDS=4", "OUTBOX_DESTINATIONS="+origin+",dead,notice",
			of+"_PUBLISH_URL="+through, of+"_TOPIC="+topic, of+"_PAUSE_FILE="+pauses.file("origin"),
			"OUTBOX_DESTINATION_DEAD_TOPIC="+dead, "OUTBOX_DESTINATION_DEAD_COLUMNS="+own("dead"),
			"OUTBOX_DESTINATION_DEAD_FAILED_OF="+origin,
			"OUTBOX_DESTINATION_DEAD_PAUSE_FILE="+pauses.file("dead"),
			"OUTBOX_DESTINATION_NOTICE_TOPIC="+notice, "OUTBOX_DESTINATION_NOTICE_COLUMNS=relayed_at:notice_at",
			"OUTBOX_DESTINATION_NOTICE_RELAYED_OF="+origin, "OUTBOX_DESTINATION_NOTICE_PAUSE_FILE="+pauses.file("notice"))
	}
	outbox.destination(env("orders"), "dead", "notice")
	rows := 0
	insert := func() {
		outbox.insert("any", rows, 100, 7)
		rows += 100
	}
	// arrived waits until the dead letters and notices of the given number of rows have arrived.
	arrived := func(what string, rows int) {
		t.Helper()
		await(t, what, func() bool {
			return outbox.count("dead_relayed_at is not null") == rows/10 && outbox.count("notice_at is not null") == rows*9/10
		})
	}
	relayed := func(rows int) {
		t.Helper()
		await(t, "the origin has done its rows", func() bool {
			return outbox.count("relayed_at is not null") == rows*9/10 && outbox.count("failed_at is not null") == rows/10
		})
	}

	pauses.set(nil, true, "dead", "notice")
	r := startRelay(t, env("orders"))
	insert()
	relayed(100)
	gate.shut()
	insert()
	await(t, "the origin is down", func() bool { return r.metric(`destination_up{destination="orders"}`) == "0" })
	pauses.set(r, false, "dead", "notice")
	arrived("dead letters and notices come while the origin is down", 100)
	outbox.checkUnspent("(payload->>'n')::int >= 100")
	gate.open()
	relayed(200)
	arrived("dead letters and notices of what was inserted meanwhile", 200)

	pauses.set(r, true, "dead", "notice")
	insert()
	relayed(300)
	if err := os.WriteFile(pauses.file("origin"), []byte("true"), 0o600); err != nil {
		t.Fatal(err)
	}
	await(t, "the origin is paused", func() bool {
		_, body := r.get("/readyz?verbose")
		return strings.Contains(body, "destination orders ok: paused")
	})
	insert()
	pauses.set(r, false, "dead", "notice")
	arrived("dead letters and notices come while the origin is paused", 300)
	if n := outbox.count(isPending); n != 100 {
		t.Errorf("%d rows are pending at the origin that is paused", n)
	}
	pauses.set(nil, false, "origin")
	relayed(400)
	arrived("dead letters and notices of what was inserted meanwhile", 400)

	pauses.set(r, true, "dead", "notice")
	insert()
	relayed(500)
	other := startRelay(t, env("sales"))
	other.awaitReady()
	insert()
	relayed(600)
	r.stop()
	pauses.set(other, false, "dead", "notice")
	arrived("dead letters and notices of an origin that was renamed", 600)
	other.stop()

	for name, c := range map[string]struct {
		topic string
		fits  func(int) bool
	}{
		"the origin": {topic, func(n int) bool { return !illegal(n) }}, "dead letters": {dead, illegal},
		"notices": {notice, func(n int) bool { return !illegal(n) }},
	} {
		got := nats.received(t, c.topic)
		if !maps.Equal(numbers(t, got), once(rows, c.fits)) {
			t.Errorf("%s: %d messages have arrived, not each row that belongs there once", name, len(got))
		}
	}
	letters := nats.received(t, dead)
	if first, last := letters[0].headers["outbox-destination"],
		letters[len(letters)-1].headers["outbox-destination"]; first != "orders" ||
		last != "sales" {
		t.Errorf("the first dead letter is of %q, the last one of %q", first, last)
	}
}

// TestReplicaThatKnowsNoDeadLetter: while a rolling update adds a dead letter, or removes it, replicas without it fail
// rows too. Each failure has its dead letter once such a replica has released its shards. This includes the second
// failure of a row that `failed retry` retried.
func TestReplicaThatKnowsNoDeadLetter(t *testing.T) {
	t.Parallel()
	b := newNATS(t, endpoint(t, "TEST_NATS_URL"))
	topic, dead := b.topic(t), b.topic(t)
	outbox := newTable(t)
	illegal := outbox.failing()
	without := outbox.env(b.url(), "OUTBOX_TOPIC="+topic)
	with := append(slices.Clone(without), "OUTBOX_DESTINATIONS=default,dead", "OUTBOX_DESTINATION_DEAD_TOPIC="+dead,
		"OUTBOX_DESTINATION_DEAD_COLUMNS="+own("dead"), "OUTBOX_DESTINATION_DEAD_FAILED_OF=default")
	const before, rows = 100, 400
	outbox.insert("any", 0, before, 40)
	old := startRelay(t, without)
	outbox.awaitDrained()
	outbox.destination(with, "dead")
	await(t, "the replica without the dead letter has seen the new columns", func() bool {
		return strings.Count(old.Log(), `"msg":"found the outbox"`) == 2
	})
	r := startRelay(t, with)
	// meet waits until the replica with the dead letter and the one without have half of the rows each. The dead letters
	// have shards of their own, which only one of them relays.
	meet := func() {
		t.Helper()
		await(t, "both relay", func() bool { return old.owns(8) && r.owns(8+16) })
	}
	// both waits until all rows that must fail have failed, and checks that each replica has failed some.
	both := func() {
		t.Helper()
		await(t, "all has failed that is to fail", func() bool {
			return outbox.count("failed_at is not null") == (before+rows)/10
		})
		for name, r := range map[string]*relay{"with": r, "without": old} {
			if n := r.metric(`rows_failed_total{destination="default",reason="permanent"}`); n == "" || n == "0" {
				t.Errorf("the replica %s the dead letter has failed no row: %q", name, n)
			}
		}
	}
	// arrived waits for the dead letters of all failures, as many for each row as given.
	arrived := func(times int) {
		t.Helper()
		await(t, "each failure has its dead letter", func() bool {
			return outbox.count("dead_relayed_at is null and failed_at is not null") == 0
		})
		// Rows that had failed before count as done.
		want := once(before+rows, func(n int) bool { return illegal(n) && n >= before })
		for n := range want {
			want[n] = times
		}
		if got := numbers(t, b.received(t, dead)); !maps.Equal(got, want) {
			t.Errorf("%d rows have dead letters, want %d with %d each: %v", len(got), len(want), times, got)
		}
	}
	meet()
	outbox.insert("any", before, rows, 40)
	both()
	old.stop()
	arrived(1)
	old = startRelay(t, without)
	meet()
	ids := pgtest.Value[[]string](t, outbox.Schema,
		"select array_agg(id::text) from outbox_messages where failed_at is not null and "+
			"(payload->>'n')::int >= 100")
	code, _, problems := runCommand(t, with, append([]string{"failed", "retry", "--yes"}, ids...)...)
	if code != 0 {
		t.Fatalf("failed retry: status %d: %s", code, problems)
	}
	both()
	old.stop()
	arrived(2)
	r.stop()
	if got := numbers(t, b.received(t, topic)); !maps.Equal(got, once(before+rows, func(n int) bool {
		return !illegal(n)
	})) {
		t.Errorf("%d of the other rows have arrived, or some twice", len(got))
	}
}
