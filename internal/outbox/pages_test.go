package outbox

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/internal/rowkey"
)

var anyNumber = Most{Rows: 1000, Bytes: 1 << 30, First: 1 << 30}

func tail(t *testing.T, table *Table, q Query) Page {
	t.Helper()
	q.Most = Most{
		Rows: cmp.Or(q.Rows, anyNumber.Rows), Bytes: cmp.Or(q.Bytes, anyNumber.Bytes),
		First: cmp.Or(q.First, anyNumber.First),
	}
	page, err := table.Tail(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// idsOf are the ids of rows, one after the other.
func idsOf(rows []Row) (ids string) {
	for i := range rows {
		ids += rows[i].Message.ID
	}
	return ids
}

const plainTable = `create table outbox_messages (id bigint primary key, seq %s, key text, topic text not null default
	't',
	payload text not null default '', relayed_at timestamptz, failed_at timestamptz, last_error text, attempt int%s);
	create index on outbox_messages (seq) where relayed_at is null and failed_at is null;`

// The memory of a page stays until the last of its rows has been settled. It is in proportion to the rows.
func TestPagesTakeMemoryForTheirRows(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, fmt.Sprintf(plainTable, "bigint not null", ""))
	table := open(t, s, Config{})
	for first, rows := range map[int]int{100: 1, 200: 17, 300: 100} {
		s.Exec(t, "delete from outbox_messages")
		s.Exec(t, "insert into outbox_messages (id, seq) select i, i from generate_series($1::int, $2::int) i", first,
			first+rows-1)
		page := tail(t, table, Query{})
		if room := cap(page.Rows); len(page.Rows) != rows || room > max(5*rows, 32) {
			t.Errorf("%d of %d rows, with room for %d", len(page.Rows), rows, room)
		}
	}
}

// A first page has what comes after the cursor, what its snapshot may have missed, and nothing else, for every type of
// order value and whether the table knows the inserting transaction or not. The snapshot comes also when no row does.
func TestTailPages(t *testing.T) {
	t.Parallel()
	const later = `insert into outbox_messages (id, seq) select i, %s from unnest($1::bigint[]) i`
	for typ, value := range map[string]string{
		"bigint": "i", "integer": "i::int", "smallint": "i::smallint",
		"timestamptz": "'2020-01-01'::timestamptz + i * interval '1 s'",
		"timestamp":   "'2020-01-01'::timestamp + i * interval '1 s'", "numeric": "i::numeric / 7",
		"text collate \"C\"": "'x' || i",
	} {
		for _, txid := range []string{"", ", txid xid8 not null default pg_current_xact_id()"} {
			t.Run(typ+txid, func(t *testing.T) {
				t.Parallel()
				s := pgtest.New(t)
				s.Exec(t, fmt.Sprintf(plainTable, typ+" not null", txid))
				table := open(t, s, Config{})
				if got := tail(t, table, Query{}); len(got.Rows) != 0 || got.Full || got.Visible.Next == 0 ||
					got.Visible.Now.IsZero() {
					t.Errorf("an empty table: %+v", got)
				}
				insert := fmt.Sprintf(later, value)
				s.Exec(t, insert, []int64{2, 3, 4})
				first := tail(t, table, Query{Most: Most{Rows: 3, Bytes: 1 << 20}})
				if idsOf(first.Rows) != "234" || !first.Full {
					t.Fatalf("the first page: %s", idsOf(first.Rows))
				}
				cursor, zero := first.Rows[2].Position, int64(-1<<63)
				s.Exec(t, insert, []int64{1, 5})
				for name, c := range map[string]struct {
					query Query
					want  string
				}{
					"after":                {Query{After: cursor}, "5"},
					"seen":                 {Query{After: cursor, Seen: &first.Visible}, "15"},
					"seen, from the least": {Query{After: cursor, Seen: &first.Visible, Low: &zero}, "15"},
					"no cursor":            {Query{Seen: &first.Visible}, "12345"},
				} {
					page := tail(t, table, c.query)
					if got := idsOf(sure(page, c.query.Seen, table)); got != c.want || page.Full {
						t.Errorf("%s: %s, want %s", name, got, c.want)
					}
					for _, r := range page.Rows {
						if after := r.Message.ID == "5" || name == "no cursor"; r.After != after {
							t.Errorf("%s: row %s is after the cursor: %v", name, r.Message.ID, r.After)
						}
						if old := r.Message.ID >= "2" && r.Message.ID <= "4"; page.Visible.Next <= r.Writer ||
							first.Visible.Sees(r.Writer) != old {
							t.Errorf("%s: row %s was written by %d, of %+v", name, r.Message.ID, r.Writer, first.Visible)
						}
					}
				}
				second := tail(t, table, Query{After: cursor, Seen: &first.Visible})
				last := second.Rows[len(second.Rows)-1].Position
				if again := tail(t, table,
					Query{After: last, Seen: &second.Visible}); len(sure(again, &second.Visible, table)) > 0 {
					t.Errorf("again: %s", idsOf(again.Rows))
				}
				if low := int64(1) << 40; table.Ordinal() && !table.Timed() {
					q := Query{After: cursor, Seen: &first.Visible, Low: &low}
					if got := idsOf(sure(tail(t, table, q), q.Seen, table)); got != "5" {
						t.Errorf("above the low watermark: %s", got)
					}
				}
			})
		}
	}
}

// sure are the rows of a page without those that are brought again because transactions of other tests have ended:
// without txid their numbers could be those of transactions that the rows were written in.
func sure(page Page, seen *Visible, table *Table) []Row {
	return slices.DeleteFunc(slices.Clone(page.Rows), func(r Row) bool {
		return seen != nil && !r.After && seen.Sees(r.Writer) &&
			!seen.Certain(r.Writer, table.Exact(), seen.FirstEnded(&page.Visible))
	})
}

// Without the inserting transaction, a row that was written under a savepoint is doubtful from the first transaction
// on that has ended since, and not while it still runs: one transaction that is open for long must not make all rows
// doubtful.
func TestTailBringsRowsOfSavepoints(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, fmt.Sprintf(plainTable, "bigint not null", ""))
	table := open(t, s, Config{})
	long, err := s.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = long.Rollback(t.Context()) }()
	for _, statement := range []string{
		"insert into outbox_messages (id, seq) values (1, 1)", "savepoint a",
		"insert into outbox_messages (id, seq) values (2, 2)",
	} {
		if _, err := long.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	s.Exec(t, "insert into outbox_messages (id, seq) values (3, 3)")
	first := tail(t, table, Query{})
	if got := idsOf(first.Rows); got != "3" {
		t.Fatalf("the first page: %s", got)
	}
	q := Query{After: first.Rows[0].Position, Seen: &first.Visible}
	if got := idsOf(sure(tail(t, table, q), q.Seen, table)); got != "" {
		t.Errorf("while the transaction runs: %s", got)
	}
	if err := long.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	page := tail(t, table, q)
	if got := idsOf(page.Rows); got != "123" {
		t.Errorf("after its commit: %s", got)
	}
	for _, r := range page.Rows {
		if certain := first.Visible.Certain(r.Writer, table.Exact(), first.Visible.FirstEnded(&page.Visible)); certain {
			t.Errorf("row %s counts as certain", r.Message.ID)
		}
	}
	q.Seen = &page.Visible
	if got := idsOf(sure(tail(t, table, q), q.Seen, table)); got != "" {
		t.Errorf("at last: %s", got)
	}
}

// Transaction numbers of rows have 32 bits. The epoch of the answer is added.
func TestWidenedNumbers(t *testing.T) {
	t.Parallel()
	v := Visible{Unassigned: 5<<32 + 10}
	for n, want := range map[uint32]uint64{9: 5<<32 + 9, 3: 5<<32 + 3, 2: 2, 11: 4<<32 + 11, 1<<32 - 1: 5<<32 - 1} {
		if got := v.widen(n); got != want {
			t.Errorf("%d: %d, want %d", n, got, want)
		}
	}
	v = Visible{Unassigned: 10}
	if got := v.widen(11); got != 11 {
		t.Errorf("a number of another cluster: %d", got)
	}
}

// The next number to be assigned is known. A transaction with a higher number than all that had ended is therefore
// recognised when it ends.
func TestVisibleKnowsTheNextNumber(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, fmt.Sprintf(plainTable, "bigint not null", ""))
	table := open(t, s, Config{})
	for range 20 {
		tx, err := s.Pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var number uint64
		if err := tx.QueryRow(t.Context(), "select pg_current_xact_id()::text::bigint").Scan(&number); err != nil {
			t.Fatal(err)
		}
		running := tail(t, table, Query{}).Visible
		if number >= running.Unassigned || running.Unassigned < running.Next || running.Sees(number) {
			t.Errorf("transaction %d runs, and these are visible: %+v", number, running)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if ended := tail(t, table, Query{}).Visible; !ended.Sees(number) || running.FirstEnded(&ended) > number {
			t.Errorf("transaction %d has ended, and these are visible: %+v, before %+v", number, ended, running)
		}
	}
}

// keyTables have keys of every type and from every place, each with the index that the relay asks for.
var keyTables = map[string]struct {
	column, insert string
	key            rowkey.Source
	collation      string
}{
	"text":             {column: "key text", insert: "'key ' || k"},
	"varchar":          {column: "key varchar(80)", insert: "'key ' || k"},
	"char":             {column: "key char(20)", insert: "'key ' || k"},
	"uuid":             {column: "key uuid", insert: "md5(k::text)::uuid"},
	"bigint":           {column: "key bigint", insert: "k"},
	"numeric":          {column: "key numeric", insert: "k / 4.0"},
	"nondeterministic": {column: `key text collate odd`, insert: "'key ' || k", collation: "odd"},
	"payload": {
		column: "doc jsonb", insert: "jsonb_build_object('a', jsonb_build_object('b c', 'key ' || k))",
		key: rowkey.Source{Kind: rowkey.Payload, Name: "a.b c"},
	},
	"topic": {column: "more text", insert: "null", key: rowkey.Source{Kind: rowkey.Topic}},
	"none":  {column: "more text", insert: "null", key: rowkey.Source{Kind: rowkey.None}},
}
