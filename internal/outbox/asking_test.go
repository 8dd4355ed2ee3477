package outbox

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/internal/rowkey"
	"github.com/outbox-relay/outbox-relay/sql"
)

var anyNumber = Most{Rows: 1000, Bytes: 1 << 30, First: 1 << 30}

func tail(t *testing.T, table *Table, q TailQuery) TailPage {
	t.Helper()
	q.Most = Most{
		Rows: cmp.Or(q.Rows, anyNumber.Rows), Bytes: cmp.Or(q.Bytes, anyNumber.Bytes), First: cmp.Or(q.First, anyNumber.First),
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

const plainTable = `create table outbox_messages (id bigint primary key, seq %s, key text, topic text not null default 't',
	payload text not null default '', relayed_at timestamptz, failed_at timestamptz, last_error text, attempt int%s);
	create index on outbox_messages (seq) where relayed_at is null and failed_at is null;`

// A first page has what comes after the cursor, what its snapshot may have missed, and nothing else, for every type of
// order value and whether the table knows the inserting transaction or not. The snapshot comes also when no row does.
func TestTailPages(t *testing.T) {
	t.Parallel()
	const later = `insert into outbox_messages (id, seq) select i, %s from unnest($1::bigint[]) i`
	for typ, value := range map[string]string{
		"bigint": "i", "integer": "i::int", "smallint": "i::smallint", "timestamptz": "'2020-01-01'::timestamptz + i * interval '1 s'",
		"timestamp": "'2020-01-01'::timestamp + i * interval '1 s'", "numeric": "i::numeric / 7", "text collate \"C\"": "'x' || i",
	} {
		for _, txid := range []string{"", ", txid xid8 not null default pg_current_xact_id()"} {
			t.Run(typ+txid, func(t *testing.T) {
				t.Parallel()
				s := pgtest.New(t)
				s.Exec(t, fmt.Sprintf(plainTable, typ+" not null", txid))
				table := open(t, s, Config{})
				if got := tail(t, table, TailQuery{}); len(got.Rows) != 0 || got.Full || got.Visible.Next == 0 || got.Visible.Now.IsZero() {
					t.Errorf("an empty table: %+v", got)
				}
				insert := fmt.Sprintf(later, value)
				s.Exec(t, insert, []int64{2, 3, 4})
				first := tail(t, table, TailQuery{Most: Most{Rows: 3, Bytes: 1 << 20}})
				if idsOf(first.Rows) != "234" || !first.Full {
					t.Fatalf("the first page: %s", idsOf(first.Rows))
				}
				cursor, zero := first.Rows[2].Position, int64(-1<<63)
				s.Exec(t, insert, []int64{1, 5})
				for name, c := range map[string]struct {
					query TailQuery
					want  string
				}{
					"after":                {TailQuery{After: cursor}, "5"},
					"seen":                 {TailQuery{After: cursor, Seen: &first.Visible}, "15"},
					"seen, from the least": {TailQuery{After: cursor, Seen: &first.Visible, Low: &zero}, "15"},
					"no cursor":            {TailQuery{Seen: &first.Visible}, "12345"},
				} {
					page := tail(t, table, c.query)
					if got := idsOf(sure(page, c.query.Seen, table)); got != c.want || page.Full {
						t.Errorf("%s: %s, want %s", name, got, c.want)
					}
					for _, r := range page.Rows {
						if after := r.Message.ID == "5" || name == "no cursor"; r.After != after {
							t.Errorf("%s: row %s is after the cursor: %v", name, r.Message.ID, r.After)
						}
						if old := r.Message.ID >= "2" && r.Message.ID <= "4"; page.Visible.Next <= r.Writer || first.Visible.Sees(r.Writer) != old {
							t.Errorf("%s: row %s was written by %d, of %+v", name, r.Message.ID, r.Writer, first.Visible)
						}
					}
				}
				second := tail(t, table, TailQuery{After: cursor, Seen: &first.Visible})
				last := second.Rows[len(second.Rows)-1].Position
				if again := tail(t, table, TailQuery{After: last, Seen: &second.Visible}); len(sure(again, &second.Visible, table)) > 0 {
					t.Errorf("again: %s", idsOf(again.Rows))
				}
				if low := int64(1) << 40; table.Ordinal() && !table.Timed() {
					q := TailQuery{After: cursor, Seen: &first.Visible, Low: &low}
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
func sure(page TailPage, seen *Visible, table *Table) []Row {
	return slices.DeleteFunc(slices.Clone(page.Rows), func(r Row) bool {
		return seen != nil && !r.After && seen.Sees(r.Writer) && !seen.Certain(r.Writer, table.Exact(), &page.Visible)
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
		"insert into outbox_messages (id, seq) values (1, 1)", "savepoint a", "insert into outbox_messages (id, seq) values (2, 2)",
	} {
		if _, err := long.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	s.Exec(t, "insert into outbox_messages (id, seq) values (3, 3)")
	first := tail(t, table, TailQuery{})
	if got := idsOf(first.Rows); got != "3" {
		t.Fatalf("the first page: %s", got)
	}
	q := TailQuery{After: first.Rows[0].Position, Seen: &first.Visible}
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
		if certain := first.Visible.Certain(r.Writer, table.Exact(), &page.Visible); certain {
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
		running := tail(t, table, TailQuery{}).Visible
		if number >= running.Unassigned || running.Unassigned < running.Next || running.Sees(number) {
			t.Errorf("transaction %d runs, and these are visible: %+v", number, running)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if ended := tail(t, table, TailQuery{}).Visible; !ended.Sees(number) || running.FirstEnded(&ended) > number {
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

func keyTable(t *testing.T, s *pgtest.Schema, name string, index bool) *Table {
	t.Helper()
	c := keyTables[name]
	s.Exec(t, "create collation if not exists odd (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
	s.Exec(t, "create table outbox_messages (id bigint primary key, seq bigint not null, "+c.column+`, topic text not null,
		payload text not null default 'x', relayed_at timestamptz, failed_at timestamptz, attempt int, last_error text, updated_at timestamptz)`)
	s.Exec(t, "create index on outbox_messages (seq) where relayed_at is null and failed_at is null")
	s.Exec(t, "create index on outbox_messages (failed_at, id) where failed_at is not null")
	config := Config{Key: c.key}
	if name == "payload" {
		config.Columns = map[string]string{"payload": "doc"}
	}
	table := open(t, s, config)
	if index {
		s.Exec(t, "create index by_key on outbox_messages ("+table.mapping.keyHash()+", seq) where relayed_at is null and failed_at is null")
		if table = open(t, s, config); !table.KeyIndexed() {
			t.Fatalf("the index is not found: %s", table.mapping.keyHash())
		}
	}
	return table
}

// Keys brings the first rows of each key in order, up to each key's own limit, for keys of every type, with the index
// and without.
func TestFirstRowsOfKeys(t *testing.T) {
	t.Parallel()
	for name, c := range keyTables {
		for _, index := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, index %v", name, index), func(t *testing.T) {
				t.Parallel()
				s := pgtest.New(t)
				table := keyTable(t, s, name, index)
				column := strings.Fields(c.column)[0]
				s.Exec(t, "insert into outbox_messages (id, seq, topic, "+column+") select i, -i, 'topic ' || k, "+c.insert+
					" from (select i, i % 7 as k from generate_series(1, 70) i) rows")
				all := tail(t, table, TailQuery{}).Rows
				want := map[uint64][]string{}
				var asks []Ask
				for _, r := range all {
					if want[r.Hash] == nil {
						asks = append(asks, Ask{Hash: r.Hash, Limit: 3 + len(asks)*2})
					}
					want[r.Hash] = append(want[r.Hash], r.Message.ID)
				}
				if keys := map[string]int{"none": 70}; len(want) != max(keys[name], 7) {
					t.Fatalf("%d keys", len(want))
				}
				asks = append(asks, Ask{Hash: 12345, Limit: 5})
				from := all[len(all)/2].Position.Ordinal
				for _, bound := range []*int64{nil, &from} {
					for i := range asks {
						asks[i].From = bound
					}
					page, err := table.Keys(t.Context(), KeysQuery{Asks: asks, Most: anyNumber})
					if err != nil {
						t.Fatal(err)
					}
					for i, a := range asks {
						var got, expected []string
						for _, r := range page.Keys[i].Rows {
							got = append(got, r.Message.ID)
						}
						for _, r := range all {
							if r.Hash == a.Hash && (bound == nil || r.Position.Ordinal >= from) {
								expected = append(expected, r.Message.ID)
							}
						}
						complete := len(expected) < a.Limit
						if expected = expected[:min(len(expected), a.Limit)]; !slices.Equal(got, expected) || page.Keys[i].All != complete {
							t.Errorf("key %d with limit %d: %v, all %v; want %v", i, a.Limit, got, page.Keys[i].All, expected)
						}
					}
				}
				// A page that is full has none of the last keys, and does not say that they have no rows.
				page, err := table.Keys(t.Context(), KeysQuery{Asks: asks, Most: Most{Rows: 2, Bytes: 1 << 20, First: 1 << 20}})
				if err != nil {
					t.Fatal(err)
				}
				rows := 0
				for _, k := range page.Keys {
					if rows += len(k.Rows); k.All {
						t.Error("a key of a full page counts as read")
					}
				}
				if rows != 2 || page.Visible.Next == 0 {
					t.Errorf("%d rows", rows)
				}
			})
		}
	}
}

// Keys that are equal for the database and differ as text are two keys, with citext too.
func TestKeysOfEqualTexts(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, "create extension if not exists citext")
	s.Exec(t, `create table outbox_messages (id bigint primary key, key citext, topic text default 't', payload text default 'x',
		relayed_at timestamptz)`)
	s.Exec(t, "insert into outbox_messages (id, key) select i, case when i % 2 = 0 then 'KEY' else 'key' end from generate_series(1, 6) i")
	table := open(t, s, Config{})
	s.Exec(t, "create index by_key on outbox_messages ("+table.mapping.keyHash()+", id) where relayed_at is null")
	if table = open(t, s, Config{}); !table.KeyIndexed() {
		t.Fatal("the index is not found")
	}
	rows := tail(t, table, TailQuery{}).Rows
	asks := []Ask{{Hash: rows[0].Hash, Limit: 9}, {Hash: rows[1].Hash, Limit: 9}}
	page, err := table.Keys(t.Context(), KeysQuery{Asks: asks, Most: anyNumber})
	if err != nil {
		t.Fatal(err)
	}
	if odd, even := idsOf(page.Keys[0].Rows), idsOf(page.Keys[1].Rows); odd != "135" || even != "246" {
		t.Errorf("%s and %s", odd, even)
	}
}

// An insert does not fail because its key is long, and keys that differ in their last byte are two.
func TestLongKeys(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, sql.Schema(messages))
	table := open(t, s, Config{})
	s.Exec(t, `insert into outbox_messages (topic, key, payload) select 't', text || i, '{}' from generate_series(1, 2) i,
		(select string_agg(md5(i::text), '') as text from generate_series(1, 3000) i) long`)
	rows := tail(t, table, TailQuery{}).Rows
	if len(rows) != 2 || rows[0].Hash == rows[1].Hash || len(rows[0].Message.Key) != 96_001 {
		t.Errorf("%d rows", len(rows))
	}
}

// The keys of failed rows are read in parts, without any text. A row that was discarded and kept has not failed.
func TestBlockedKeys(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	table := keyTable(t, s, "text", true)
	s.Exec(t, `insert into outbox_messages (id, seq, topic, key, failed_at, relayed_at) select i, i, 't', nullif('key ' || i, 'key 5'),
		now() + i / 2 * interval '1 s', case when i = 6 then now() end from generate_series(1, 9) i`)
	s.Exec(t, "insert into outbox_messages (id, seq, topic, key) select 100 + i, i, 't', 'key ' || i from generate_series(1, 9) i")
	var hashes []uint64
	for q := (BlockedQuery{Rows: 2}); ; {
		page, err := table.Blocked(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range page.Keys {
			hashes = append(hashes, k.Hash)
		}
		if q.After = page.End; !page.Full {
			break
		}
	}
	if len(hashes) != 7 {
		t.Errorf("%d keys", len(hashes))
	}
	var asks []Ask
	for _, r := range tail(t, table, TailQuery{}).Rows {
		asks = append(asks, Ask{Hash: r.Hash, Limit: 1})
	}
	page, err := table.Keys(t.Context(), KeysQuery{Asks: asks, Blocked: true, Most: anyNumber})
	if err != nil {
		t.Fatal(err)
	}
	for i, k := range page.Keys {
		if want := slices.Contains(hashes, asks[i].Hash); k.Blocked != want {
			t.Errorf("key %d is blocked: %v", i+1, k.Blocked)
		}
	}
}

// A sweep meets every pending row up to a position, once and in order, without its contents.
func TestSweep(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	table := keyTable(t, s, "text", true)
	s.Exec(t, `insert into outbox_messages (id, seq, topic, key, relayed_at) select i, i / 2, 'topic ' || i, nullif('key ' || i % 3, 'key 0'),
		case when i = 5 then now() end from generate_series(1, 9) i`)
	rows := tail(t, table, TailQuery{}).Rows
	var ids string
	for q := (SweepQuery{Rows: 3, Upto: rows[6].Position}); ; {
		page, err := table.Sweep(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Rows {
			i := slices.IndexFunc(rows, func(row Row) bool { return row.Identity() == r.Identity })
			row := rows[i]
			if r.Hash != row.Hash || r.Topic != row.Message.Topic || r.Keyless != (row.Message.Key == nil) || r.Shard != row.Shard ||
				r.Position != row.Position || r.Writer != row.Writer {
				t.Errorf("%+v of %+v", r, row)
			}
			ids, q.After = ids+row.Message.ID, r.Position
		}
		if page.Visible.Next == 0 {
			t.Error("without a snapshot")
		}
		if !page.Full {
			break
		}
	}
	if ids != "1234678" {
		t.Errorf("swept %s", ids)
	}
}
