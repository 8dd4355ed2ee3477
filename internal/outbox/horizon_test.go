package outbox

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// A read within a horizon returns what was committed when the horizon was taken, and nothing that was inserted or committed
// later.
func TestHorizon(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, `create table outbox_messages (id text primary key, seq integer, topic text not null, payload jsonb, relayed_at timestamptz)`)
	table := open(t, s, Config{})
	if page := read(t, table, Query{Horizon: true}); page.Horizon == nil || page.Horizon.Highest != nil {
		t.Errorf("of an empty table: %+v", page.Horizon)
	}
	s.Exec(t, "insert into outbox_messages values ('n', null, 't', null, null)")
	if page := read(t, table, Query{Horizon: true}); page.Horizon.Highest != nil || ids(page) != "n" {
		t.Errorf("without an order value: %+v, rows %s", page.Horizon, ids(page))
	}

	ctx := t.Context()
	s.Exec(t, "insert into outbox_messages values ('a', -3, 't', null, null), ('c', 7, 't', null, null), ('r', 9, 't', null, now())")
	awaitOlder(t, s)
	older, err := s.Pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = older.Rollback(ctx) }() // has no effect after the commit
	if _, err := older.Exec(ctx, "insert into outbox_messages values ('b', 5, 't', null, null)"); err != nil {
		t.Fatal(err)
	}
	var within *Horizon
	for name, q := range map[string]Query{
		"first": {Horizon: true, Limit: 1}, "recent": {Horizon: true, Recent: new(int64)},
		"shards": {Horizon: true, Shards: []int{}},
	} {
		page := read(t, table, q)
		if within = page.Horizon; within == nil || within.Highest == nil || *within.Highest != 7 {
			t.Errorf("%s: %+v", name, page)
		}
	}
	if err := older.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	s.Exec(t, "insert into outbox_messages values ('d', 6, 't', null, null), ('e', 8, 't', null, null)")
	first := Position{order: afterNulls} // after the rows without an order value
	beyond := func(page Page) (ids string) {
		for _, r := range page.Rows {
			if r.Beyond {
				ids += r.Message.ID
			}
		}
		return ids
	}
	if page := read(t, table, Query{After: first, Within: within}); ids(page) != "abdc" || beyond(page) != "bd" || page.Beyond != 2 ||
		page.More {
		t.Errorf("within the horizon: rows %s, beyond %s, more %t", ids(page), beyond(page), page.More)
	}
	if page := read(t, table, Query{After: first, Within: within, Limit: 3}); ids(page) != "abd" || beyond(page) != "bd" || page.Beyond != 2 ||
		!page.More || page.End.Ordinal != 6 {
		t.Errorf("the first three: rows %s, %+v", ids(page), page)
	}
	if page := read(t, table, Query{After: first}); ids(page) != "abdce" {
		t.Errorf("all: %s", ids(page))
	}
}

func TestHorizonSees(t *testing.T) {
	t.Parallel()
	const most = 1<<32 - 1
	for _, test := range []struct {
		snapshot    string
		transaction uint32
		want        bool
	}{
		{"100:100:", 99, true},
		{"100:100:", 100, false},
		{"100:100:", 2, true},
		{"100:110:100,105", 100, false},
		{"100:110:100,105", 101, true},
		{"100:110:100,105", 105, false},
		{"100:110:100,105", 110, false},
		{"4294967290:4294967300:4294967290", most, true},
		{"4294967290:4294967300:4294967290", 4, false},
		{"4294967290:4294967300:4294967290,4294967299", 3, false},
		{"3000000000:3000000000:", 400, true},
		{"100:100:", 1<<31 + 50, true}, // before the counter wrapped around
	} {
		var h Horizon
		if err := h.parse(test.snapshot); err != nil {
			t.Fatal(err)
		}
		if got := h.Sees(test.transaction); got != test.want {
			t.Errorf("%s sees %d: %t", test.snapshot, test.transaction, got)
		}
	}
	if err := new(Horizon).parse("nonsense"); err == nil {
		t.Error("nonsense is a snapshot")
	}
	if err := new(Horizon).parse("1:1:", "old"); err == nil {
		t.Error("a word is an age")
	}
}

// If a transaction has ended meanwhile, the rows that a later page shows of it are beyond the horizon, under whatever number
// they were written. Writes of a transaction that is still running are not visible. Writes of other transactions during that
// time are within the horizon.
func TestHorizonWithSavepoints(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, `create table outbox_messages (id text primary key, seq integer not null, topic text not null, payload jsonb,
		relayed_at timestamptz)`)
	const insert = "insert into outbox_messages (id, seq, topic) values ($1, $2, 't')"
	table := open(t, s, Config{})
	ctx := t.Context()
	begin := func() (tx pgx.Tx, number string) {
		t.Helper()
		tx, err := s.Pool.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback(ctx) }) // has no effect after the commit
		if err := tx.QueryRow(ctx, "select pg_current_xact_id()::text").Scan(&number); err != nil {
			t.Fatal(err)
		}
		return tx, number
	}
	under := func(tx pgx.Tx, depth int, id string, seq int) {
		t.Helper()
		for range depth {
			var err error
			if tx, err = tx.Begin(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := tx.Exec(ctx, insert, id, seq); err != nil {
			t.Fatal(err)
		}
	}
	s.Exec(t, insert, "a", 1)
	awaitOlder(t, s)
	goesOn, number := begin()
	under(goesOn, 1, "x", 2)
	s.Exec(t, insert, "b", 3)
	awaitOlder(t, s, number)
	ends, another := begin()
	under(ends, 0, "c", 4)
	under(ends, 1, "d", 5)
	under(ends, 3, "e", 6)
	saved, err := ends.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	under(saved, 0, "y", 7)
	if err := saved.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	s.Exec(t, insert, "z", 100)
	awaitOlder(t, s, number, another) // if one of them ended later, z might have been its row
	within := read(t, table, Query{Horizon: true}).Horizon
	beyond := func() (ids string) {
		t.Helper()
		page := read(t, table, Query{Within: within})
		for _, r := range page.Rows {
			if r.Beyond {
				ids += r.Message.ID
			}
		}
		return ids
	}
	if got := beyond(); got != "" {
		t.Errorf("beyond the horizon while both go on: %s", got)
	}
	if err := ends.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	s.Exec(t, insert, "f", 8)
	if got := beyond(); got != "cdefz" { // z may belong to the transaction that has ended
		t.Errorf("beyond the horizon after the end of one: %s", got)
	}
	if err := goesOn.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if got := beyond(); got != "xbcdefz" {
		t.Errorf("beyond the horizon after the end of both: %s", got)
	}
}

// The next number to be assigned is known. A transaction with a higher number than all that had ended is therefore recognised
// when it ends.
func TestSnapshotKnowsTheNextNumber(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, `create table outbox_messages (id text primary key, topic text not null, payload jsonb, relayed_at timestamptz)`)
	table := open(t, s, Config{})
	ctx := t.Context()
	for range 20 {
		tx, err := s.Pool.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var number uint64
		if err := tx.QueryRow(ctx, "select pg_current_xact_id()::text::bigint").Scan(&number); err != nil {
			t.Fatal(err)
		}
		running := read(t, table, Query{}).Snapshot
		if !before(uint32(number), running.Unassigned) || before(running.Unassigned, running.Next) || running.Sees(uint32(number)) {
			t.Errorf("transaction %d runs, and the snapshot is %+v", number, running)
		}
		if err := tx.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		if ended := read(t, table, Query{Ended: true}).Ended; !ended.Sees(uint32(number)) {
			t.Errorf("transaction %d has ended, and the snapshot is %+v", number, ended)
		} else if first, ok := running.FirstEnded(&ended); !ok || before(uint32(number), first) {
			t.Errorf("transaction %d has ended, and the first one is %d, %t", number, first, ok)
		}
	}
}

func TestFirstEnded(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		snapshot   string
		unassigned uint32
		later      string
		want       uint32
	}{
		{"100:100:", 100, "200:200:", 0},
		{"100:110:100,105", 110, "100:110:100,105", 0},
		{"100:110:100,105", 110, "100:120:100,105", 0},
		{"100:110:100,105", 110, "100:120:100", 105},
		{"100:110:100,105", 110, "120:120:", 100},
		{"100:100:", 103, "100:100:", 0}, // still running
		{"100:100:", 103, "100:102:100", 101},
		{"100:100:", 103, "100:104:100,101,102", 0},
		{"100:100:", 103, "103:103:", 100},
		{"100:100:", 103, "100:200:100,101", 102},
		{"100:102:101", 103, "101:103:101", 102},
		{"100:102:101", 103, "103:103:", 101},
		{"4294967290:4294967295:4294967290", 5, "4294967290:4294967300:4294967290,4294967295", 3},
		{"4294967290:4294967295:4294967290", 5, "4294967290:4294967300:4294967290,4294967295,4294967299", 0},
		{"4294967290:4294967295:4294967290", 4, "4294967300:4294967300:", 4294967290},
	} {
		var s, later Snapshot
		if err := errors.Join(s.parse(test.snapshot), later.parse(test.later)); err != nil {
			t.Fatal(err)
		}
		s.Unassigned = test.unassigned
		if got, ok := s.FirstEnded(&later); got != test.want || ok != (test.want != 0) {
			t.Errorf("of %s and up to %d, by %s: %d, %t, want %d", test.snapshot, test.unassigned, test.later, got, ok, test.want)
		}
	}
}

// The next number follows from its distance from the first one, which is negative in the upper half.
func TestNextNumberFromItsAge(t *testing.T) {
	t.Parallel()
	for _, next := range []uint32{3, 4, 1000, 1 << 31, 1<<31 + 3, 1<<31 + 4, 1<<32 - 1} {
		var s Snapshot
		if err := s.parse("3:3:", strconv.Itoa(int(int32(next-3)))); err != nil || s.Unassigned != next {
			t.Errorf("%d: %d, %v", next, s.Unassigned, err)
		}
	}
}

// A row from before the counter wrapped around is within each horizon.
func TestRowsOfOldTransactions(t *testing.T) {
	t.Parallel()
	q := Query{Within: &Horizon{Snapshot: Snapshot{Oldest: 100, Next: 200, Running: []uint32{100}, Unassigned: 200}}}
	writers := []uint32{2, 99, 100, 101, 199, 200, 300, 1<<31 - 1, 1<<31 + 150, math.MaxUint32}
	page := Page{Rows: make([]Row, len(writers)), Ended: Snapshot{Oldest: 300, Next: 300, Unassigned: 300}}
	q.LeaveOut(&page, writers)
	var beyond []uint32
	for i, r := range page.Rows {
		if r.Beyond {
			beyond = append(beyond, writers[i])
		}
	}
	if want := []uint32{100, 101, 199, 200, 300}; !slices.Equal(beyond, want) || page.Beyond != len(want) {
		t.Errorf("beyond: %v, %d", beyond, page.Beyond)
	}
}
