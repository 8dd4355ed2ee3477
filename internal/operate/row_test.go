package operate

import (
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// TestRows reports where single rows are.
func TestRows(t *testing.T) {
	t.Parallel()
	s := recommended(t)
	s.Exec(t, `insert into outbox_messages (topic, key, payload, attempt, last_error, available_at, relayed_at, failed_at)
		values
		('order.due', 'a', '{}', 1, null, null, null, null),
		('order.second', 'a', '{}', 1, null, null, null, null),
		('order.retrying', null, '{}', 2, 'no', null, null, null),
		('order.scheduled', 'a', '{}', 1, null, now() + interval '1 day', null, null),
		('order.relayed', null, '{}', 1, null, null, now(), null),
		('order.failed', null, '{}', 6, 'no', null, null, now()),
		('order.discarded', null, '{}', 6, 'no [discarded]', null, now(), now()),
		('audit', null, '{}', 1, null, null, null, null)`)
	o := open(t, s, "orders order.*")
	ids := strings.Split(pgtest.Value[string](t, s, "select string_agg(id::text, ',') from outbox_messages"), ",")
	rows, err := o.RowsOf(t.Context(), append(ids, "00000000-0000-0000-0000-000000000000"), "", patience)
	if err != nil || len(rows) != 8 {
		t.Fatalf("%d rows, not 8 (%v)", len(rows), err)
	}
	for _, row := range rows {
		_, want, _ := strings.Cut(row.Topic, ".")
		why := map[string]string{"due": "no replica owns", "second": "no replica owns", "failed": "failed retry"}[want]
		switch {
		case row.Topic == "audit":
			want = "not taken"
		case want == "second":
			want = "due"
		}
		if f := row.Fates[0]; len(row.Fates) != 1 || f.State != want || !strings.Contains(f.Why, why) || row.Owner != nil ||
			f.DueAt == nil {
			t.Errorf("%s: %+v", row.Topic, row)
		}
	}
	startOwner(t, s, o, 16)
	for {
		rows, err := o.RowsOf(t.Context(), ids, "orders", patience)
		if err != nil {
			t.Fatal(err)
		}
		if rows[1].Owner == nil {
			continue
		}
		if why := rows[1].Fates[0].Why; rows[1].Topic != "order.second" ||
			why != "an older row of its key goes first, or one has failed and must be retried or discarded: "+rows[0].ID {
			t.Errorf("%s waits since %s", rows[1].Topic, why)
		}
		return
	}
}

// TestRowsOfSharedColumns reports rows of destinations that divide the rows of the same columns: each row is only at
// the one that takes it, and a row that none of them takes any more is where its columns say.
func TestRowsOfSharedColumns(t *testing.T) {
	t.Parallel()
	s := recommended(t)
	s.Exec(t, `insert into outbox_messages (topic, payload, relayed_at, failed_at) values ('order', '{}', now(), null),
		('invoice', '{}', null, now()), ('invoice', '{}', now(), now()), ('other', '{}', now(), null), ('other', '{}', null,
		null)`)
	o := open(t, s, "orders order", "invoices invoice")
	ids := strings.Split(pgtest.Value[string](t, s, "select string_agg(id::text, ',') from outbox_messages"), ",")
	rows, err := o.RowsOf(t.Context(), ids, "", patience)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, row := range rows {
		got = append(got, row.Topic+": "+row.Fates[0].State+", "+row.Fates[1].State)
	}
	const want = "order: relayed, not taken; invoice: not taken, failed; invoice: not taken, discarded; other: relayed, " +
		"relayed; " +
		"other: not taken, not taken"
	if text := strings.Join(got, "; "); text != want {
		t.Errorf("got %s\nwant %s", text, want)
	}
}

// TestRowAfterAFailedOne reports what a row waits for if a failed row blocks its key, whichever of the two is older.
func TestRowAfterAFailedOne(t *testing.T) {
	t.Parallel()
	s := recommended(t)
	s.Exec(t, `insert into outbox_messages (topic, key, payload, failed_at) values
		('first', 'a', '{}', null), ('failed', 'a', '{}', now()), ('last', 'a', '{}', null), ('other', 'b', '{}', null)`)
	o := open(t, s, "orders *")
	startOwner(t, s, o, 16)
	ids := strings.Split(pgtest.Value[string](t, s, "select string_agg(id::text, ',') from outbox_messages"), ",")
	failed := pgtest.Value[string](t, s, "select id::text from outbox_messages where topic = 'failed'")
	for _, blocks := range []bool{false, true} {
		view := o.Views[0].View()
		view.BlockFailed = blocks
		seen, err := o.Views[0].For(view)
		if err != nil {
			t.Fatal(err)
		}
		o.Views[0] = seen
		rows, err := o.RowsOf(t.Context(), ids, "", patience)
		for err == nil && rows[0].Owner == nil {
			rows, err = o.RowsOf(t.Context(), ids, "", patience)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			why := row.Fates[0].Why
			want := blocks && (row.Topic == "first" || row.Topic == "last")
			if strings.HasSuffix(why, "retried or discarded: "+failed) != want {
				t.Errorf("with %v, %s: %s", blocks, row.Topic, why)
			}
		}
	}
}

// TestRowBeforeItsDestination: of a row that counts as done at a destination that was added later nobody says that a
// broker has it.
func TestRowBeforeItsDestination(t *testing.T) {
	t.Parallel()
	s, o := several(t)
	s.Exec(t, "insert into outbox_messages (topic, payload, relayed_at, audit_at) values ('a', '{}', now(), 'epoch')")
	id := pgtest.Value[string](t, s, "select id::text from outbox_messages")
	rows, err := o.RowsOf(t.Context(), []string{id}, "", patience)
	if err != nil || len(rows) != 1 {
		t.Fatalf("%+v (%v)", rows, err)
	}
	if at, before := rows[0].Fates[0], rows[0].Fates[1]; at.State != "relayed" || at.RelayedAt == nil ||
		before.State != "relayed" ||
		before.RelayedAt != nil || !strings.Contains(before.Why, "not sent") {
		t.Errorf("%+v", rows[0].Fates)
	}
}
