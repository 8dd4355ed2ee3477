package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// numbered is the recommended table with numbers for ids.
const numbered = `create table outbox_messages (id bigint generated always as identity primary key, topic text not
	null, key text, payload jsonb,
	attempt int not null default 1, relayed_at timestamptz, failed_at timestamptz, last_error text,
	inserted_at timestamptz not null default clock_timestamp(), updated_at timestamptz not null default now())`

// shared makes a stream for all subjects below a given one, with the default window for duplicates.
func (b *natsBroker) shared(t *testing.T) (stream jetstream.Stream, subject string) {
	t.Helper()
	subject = uniqueTopic()
	stream, err := b.js.CreateStream(t.Context(),
		jetstream.StreamConfig{Name: subject, Subjects: []string{subject + ".>"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.js.DeleteStream(context.WithoutCancel(t.Context()), subject) })
	return stream, subject
}

// drain runs the command to its end, and fails unless it relays everything.
func drain(t *testing.T, env settings) {
	t.Helper()
	if code, _, problems := runCommand(t, env, "drain"); code != 0 {
		t.Fatalf("drain: status %d: %s", code, problems)
	}
}

// Services whose tables have the same name and the same numbers for ids may share a stream, and the numbers of a table
// may start again from the beginning.
func TestSharedStreamKeepsEverybodysRows(t *testing.T) {
	t.Parallel()
	nats := newNATS(t, endpoint(t, "TEST_NATS_URL"))
	stream, subject := nats.shared(t)
	const rows = 200
	want := uint64(0)
	publish := func(s *pgtest.Schema, subject, prefix string) {
		t.Helper()
		s.Exec(t, "insert into outbox_messages (topic, key, payload) select $1, 'k' || i % 3, '{}' from generate_series(1, "+
			"$2::int) i",
			subject, rows)
		drain(t, (&table{Schema: s, t: t}).env(nats.url(), "OUTBOX_NATS_MSG_ID_PREFIX="+prefix))
		want += rows
		info, err := stream.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if info.State.Msgs != want {
			t.Fatalf("the stream holds %d messages of %d rows that are marked relayed", info.State.Msgs, want)
		}
	}
	shop, billing := pgtest.NewDatabase(t), pgtest.NewDatabase(t)
	for _, s := range []*pgtest.Schema{shop, billing} {
		s.Exec(t, numbered)
		publish(s, subject+".placed", "")
	}
	shop.Exec(t, "truncate outbox_messages restart identity")
	publish(shop, subject+".placed", "")
	// A prefix keeps the rows of a table without times distinct when its numbers start again.
	billing.Exec(t, "alter table outbox_messages drop inserted_at; truncate outbox_messages restart identity")
	publish(billing, subject+".placed", "")
	billing.Exec(t, "truncate outbox_messages restart identity")
	publish(billing, subject+".placed", "billing-2")
	last, err := stream.GetLastMsgForSubject(t.Context(), subject+".placed")
	if err != nil {
		t.Fatal(err)
	}
	if id := last.Header.Get("Nats-Msg-Id"); !strings.HasPrefix(id, "billing-2/public.outbox_messages/") {
		t.Errorf("with a prefix the id is %s", id)
	}
}

// Two tables give their rows the same uuid. Messages that the stream drops are reported and counted by the relay that
// loses them.
func TestDroppedRowsAreReported(t *testing.T) {
	t.Parallel()
	nats := newNATS(t, endpoint(t, "TEST_NATS_URL"))
	stream, subject := nats.shared(t)
	first, second := newTable(t), newTable(t)
	const rows = 50
	r := startRelay(t, second.env(nats.url()))
	r.awaitReady()
	await(t, "the shards", func() bool { return r.owns(16) })
	insert := func(tb *table) {
		tb.Exec(t, "insert into outbox_messages (id, topic, key, payload) select md5($1 || i)::uuid, $1, 'k', '{}' from "+
			"generate_series(1, "+
			"$2::int) i", subject+".placed", rows)
	}
	insert(first)
	drain(t, first.env(nats.url()))
	insert(second)
	second.awaitDrained()
	await(t, "each is counted", func() bool {
		return r.metric(`unexpected_duplicates_total{destination="default"}`) == fmt.Sprint(rows)
	})
	warnings := 0
	for _, record := range r.records("WARN") {
		if strings.Contains(record.Msg, "dropped by their broker as duplicates") {
			warnings++
			if !strings.Contains(record.Error, stream.CachedInfo().Config.Name) ||
				!strings.Contains(record.Error, "stream of its own") {
				t.Errorf("stream and remedy are missing: %s", record.Error)
			}
		}
	}
	if warnings != 1 {
		t.Errorf("logged %d times", warnings)
	}
	r.stop()
	// Messages that this replica has not published may have been sent by the previous one.
	second.Exec(t, "update outbox_messages set relayed_at = null")
	again := startRelay(t, second.env(nats.url()))
	second.awaitDrained()
	await(t, "they are counted as relayed", func() bool {
		return again.metric(`rows_relayed_total{destination="default"}`) == fmt.Sprint(rows)
	})
	if got := again.metric(`unexpected_duplicates_total{destination="default"}`); got != "0" {
		t.Errorf("%s duplicates after a restart are unexpected", got)
	}
}
