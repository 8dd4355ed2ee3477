package e2e

import (
	"maps"
	"strings"
	"testing"
)

// own names all columns of a destination with columns of its own, for OUTBOX_DESTINATION_…_COLUMNS.
func own(name string) string {
	const columns = "relayed_at:X_relayed_at,attempt:X_attempt,failed_at:X_failed_at,last_error:X_last_error,updated_at:X_updated_at"
	return strings.ReplaceAll(columns, "X", name)
}

// destination adds to the table what a configured destination needs.
func (tb *table) destination(env settings, names ...string) {
	tb.t.Helper()
	for _, name := range names {
		code, ddl, problems := runCommand(tb.t, env, "schema", "--destination", name)
		if code != 0 {
			tb.t.Fatalf("schema --destination %s: status %d: %s", name, code, problems)
		}
		tb.Exec(tb.t, ddl)
	}
}

// numbers returns the numbers of the received messages, each with how often it was received.
func numbers(t testing.TB, got []delivery) map[int]int {
	t.Helper()
	counts := map[int]int{}
	for _, d := range got {
		counts[d.number(t)]++
	}
	return counts
}

// once returns the numbers below n for which fits holds, each once.
func once(n int, fits func(int) bool) map[int]int {
	counts := map[int]int{}
	for i := range n {
		if fits(i) {
			counts[i] = 1
		}
	}
	return counts
}

func all(int) bool { return true }

// TestOneRowManyDestinations: each destination with columns of its own gets each row once, whatever happens to the row
// at another one. One destination refuses everything, and one cannot carry some of the rows. Failed rows go to the dead
// letters with their reason, again when they have failed again, and relayed rows are noticed.
func TestOneRowManyDestinations(t *testing.T) {
	t.Parallel()
	const rows = 300
	nats, rabbit := newNATS(t, endpoint(t, "TEST_NATS_URL")), newRabbit(t, endpoint(t, "TEST_AMQP_URL"))
	orders, dead, notice, audit := nats.topic(t), nats.topic(t), nats.topic(t), rabbit.topic(t)
	outbox := newTable(t)
	env := outbox.env(nats.url(), "OUTBOX_DESTINATIONS=orders,audit,never,dead,notice",
		"OUTBOX_DESTINATION_ORDERS_TOPIC="+orders,
		"OUTBOX_DESTINATION_AUDIT_PUBLISH_URL="+rabbit.url(), "OUTBOX_DESTINATION_AUDIT_TOPIC="+audit,
		"OUTBOX_DESTINATION_AUDIT_COLUMNS="+own("audit"),
		"OUTBOX_DESTINATION_NEVER_TOPIC=a space is illegal", "OUTBOX_DESTINATION_NEVER_COLUMNS="+own("never"),
		"OUTBOX_DESTINATION_DEAD_TOPIC="+dead, "OUTBOX_DESTINATION_DEAD_COLUMNS="+own("dead"),
		"OUTBOX_DESTINATION_DEAD_FAILED_OF=orders",
		"OUTBOX_DESTINATION_NOTICE_TOPIC="+notice, "OUTBOX_DESTINATION_NOTICE_COLUMNS=relayed_at:notice_at",
		"OUTBOX_DESTINATION_NOTICE_RELAYED_OF=orders")
	r := startRelay(t, env)
	await(t, "the relay says which columns are missing", func() bool {
		return containsAll(r.Log(),
			[]string{"audit_relayed_at", "schema --destination audit", "dead_relayed_at", "notice_at"})
	})
	outbox.insert("any", -5, 5, 1) // the destination that uses the table's columns need not wait for the others
	await(t, "rows are relayed without the others", func() bool { return len(nats.received(t, orders)) == 5 })
	outbox.destination(env, "audit", "never", "dead", "notice")
	r.stop()
	outbox.insert("any", 0, rows, 7)
	illegal := func(n int) bool { return n%10 == 3 } // a header that NATS cannot carry
	outbox.Exec(t, `update outbox_messages set headers = '{"kept": "1", "lines": "a\nb"}'
		where (payload->>'n')::int % 10 = 3 and relayed_at is null`)
	r = startRelay(t, env)
	const done = "(relayed_at is not null or failed_at is not null) and audit_relayed_at is not null and " +
		"(never_failed_at is not null or " +
		"(payload->>'n')::int < 0)"
	await(t, "all is done", func() bool {
		return outbox.count(done) == rows+5 &&
			outbox.count("dead_relayed_at is not null and failed_at is not null") == rows/10 &&
			outbox.count("notice_at is not null and relayed_at is not null") == rows*9/10+5
	})
	legal := func(n int) bool { return !illegal(n) }
	wantDead := once(rows, illegal)
	check := func(when string) {
		t.Helper()
		for name, c := range map[string]struct {
			got  []delivery
			want map[int]int
		}{
			"orders": {nats.received(t, orders)[5:], once(rows, legal)}, "audit": {rabbit.received(t, audit), once(rows, all)},
			"notice": {nats.received(t, notice), once(rows, legal)}, "dead": {nats.received(t, dead), wantDead},
		} {
			if got := numbers(t, c.got); !maps.Equal(got, c.want) {
				t.Errorf("%s: %s got %d messages, want %d", when, name, len(c.got), len(c.want))
			}
		}
	}
	check("at first")
	letter := nats.received(t, dead)[0]
	for name, want := range map[string]string{
		"outbox-destination": "orders", "outbox-topic": "any", "outbox-attempt": "2", "kept": "1",
		"lines": "",
	} {
		if letter.headers[name] != want {
			t.Errorf("the dead letter's header %s is %q, want %q", name, letter.headers[name], want)
		}
	}
	if reason := letter.headers["outbox-error"]; !containsAll(reason,
		[]string{"NATS cannot carry", `; headers left out: lines`}) ||
		!strings.HasSuffix(letter.headers["outbox-failed-at"], "Z") {
		t.Errorf("the dead letter says %v", letter.headers)
	}
	if n := outbox.count("never_failed_at is not null and never_attempt = 2"); n != rows {
		t.Errorf("%d rows have failed where everything is refused", n)
	}
	// Rows that are retried and fail again are sent again; the others are not.
	outbox.Exec(t, "update outbox_messages set failed_at = null, last_error = null, attempt = 1 where failed_at is not "+
		"null and "+
		"(payload->>'n')::int < 100")
	for n := range wantDead {
		if n < 100 {
			wantDead[n] = 2
		}
	}
	await(t, "nothing is left", func() bool {
		return outbox.count(
			"dead_relayed_at is null and failed_at is not null or failed_at is null and relayed_at is null") == 0
	})
	await(t, "they have failed again", func() bool { return len(nats.received(t, dead)) == rows/10+10 })
	check("then")
	r.stop()
	if wrong, sum := verified(t, env, 0, "--destination", "notice"); len(wrong) != 0 || sum.Rows != rows*9/10 {
		t.Errorf("verify of the notices lists %d rows, and compares %d", len(wrong), sum.Rows)
	}
}

// TestRenamedWhileRowsAreInFlight: destinations that divide the rows may be added, renamed and removed in a rolling
// update. Nothing is lost and nothing is published twice.
func TestRenamedWhileRowsAreInFlight(t *testing.T) {
	t.Parallel()
	b := newNATS(t, endpoint(t, "TEST_NATS_URL"))
	topic := b.topic(t)
	outbox := newTable(t)
	inserted := 0
	insert := func() {
		for _, of := range []string{"order", "bill", "rest"} {
			outbox.insert(of, inserted, 500, 20)
			inserted += 500
		}
	}
	env := func(names string, patterns ...string) settings {
		e := outbox.env(b.url(), "OUTBOX_TOPIC="+topic, "OUTBOX_SHARDS=4", "OUTBOX_DESTINATIONS="+names)
		for _, p := range patterns {
			name, topics, _ := strings.Cut(p, " ")
			e = append(e, "OUTBOX_DESTINATION_"+strings.ToUpper(name)+"_TOPICS="+topics)
		}
		return e
	}
	insert()
	r := startRelay(t, env("a,rest", "a order"))
	for _, next := range []settings{env("b,rest", "b order"), env("bills,b,rest", "b order", "bills bill"), env("rest")} {
		insert()
		other := startRelay(t, next)
		other.awaitReady()
		insert()
		r.stop()
		r = other
	}
	outbox.awaitDrained()
	if got := numbers(t, b.received(t, topic)); !maps.Equal(got, once(inserted, all)) {
		t.Errorf("%d of %d rows have arrived, or some twice", len(got), inserted)
	}
	r.stop()
}

// TestDestinationComesAndGoes: a destination that is added with columns of its own starts with the rows that are
// inserted from then on. One that is removed leaves its columns, which doctor names. Rows continue to be relayed to the
// other destinations, once.
func TestDestinationComesAndGoes(t *testing.T) {
	t.Parallel()
	b := newNATS(t, endpoint(t, "TEST_NATS_URL"))
	topic, copies := b.topic(t), b.topic(t)
	outbox := newTable(t)
	one := outbox.env(b.url(), "OUTBOX_TOPIC="+topic)
	two := append(one, "OUTBOX_DESTINATIONS=default,copy", "OUTBOX_DESTINATION_COPY_TOPIC="+copies,
		"OUTBOX_DESTINATION_COPY_COLUMNS="+own("copy"))
	outbox.insert("any", 0, 400, 9)
	r := startRelay(t, one)
	outbox.insert("any", 400, 400, 9)
	outbox.destination(two, "copy")
	outbox.insert("any", 800, 400, 9)
	other := startRelay(t, two)
	other.awaitReady()
	outbox.insert("any", 1200, 400, 9)
	r.stop()
	await(t, "what was inserted since then is copied", func() bool {
		return outbox.count("copy_relayed_at is not null and relayed_at is not null") == 1600 &&
			len(b.received(t, copies)) == 800
	})
	if got := numbers(t, b.received(t, copies)); !maps.Equal(got, once(1600, func(n int) bool { return n >= 800 })) {
		t.Errorf("the copy has %d rows", len(got))
	}
	last := startRelay(t, one)
	last.awaitReady()
	outbox.insert("any", 1600, 400, 9)
	other.stop()
	outbox.awaitDrained()
	last.stop()
	check(t, outbox, b.received(t, topic))
	if d := doctor(t, one); !d.says("warning", "replicas", "no replica relays destination copy", "copy_relayed_at",
		"drop these columns") {
		t.Errorf("doctor says %+v", d.worse())
	}
	if code, out, _ := runCommand(t, two, "drain"); code != 0 {
		t.Errorf("drain: status %d: %s", code, out)
	}
	if left := outbox.count("copy_relayed_at is null"); left != 0 {
		t.Errorf("drain has left %d rows that are to be copied", left)
	}
	if rows, sum := verified(t, two, 0, "--destination", "copy"); len(rows) != 0 || sum.Rows != 1200 {
		t.Errorf("verify of the copy lists %d rows, and compares %d", len(rows), sum.Rows)
	}
}
