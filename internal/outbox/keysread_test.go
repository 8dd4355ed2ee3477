package outbox

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/sql"
)

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
		s.Exec(t, "create index by_key on outbox_messages ("+table.mapping.keyHash()+
			", seq) where relayed_at is null and failed_at is null")
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
				all := tail(t, table, Query{}).Rows
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
					page, err := table.Keys(t.Context(), Query{Asks: asks, Most: anyNumber})
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
						if expected = expected[:min(len(expected), a.Limit)]; !slices.Equal(got, expected) ||
							page.Keys[i].All != complete {
							t.Errorf("key %d with limit %d: %v, all %v; want %v", i, a.Limit, got, page.Keys[i].All, expected)
						}
					}
				}
				// A page that is full has none of the last keys, and does not say that they have no rows.
				page, err := table.Keys(t.Context(), Query{Asks: asks, Most: Most{Rows: 2, Bytes: 1 << 20, First: 1 << 20}})
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
	s.Exec(t, `create table outbox_messages (id bigint primary key, key citext, topic text default 't', payload text
		default 'x',
		relayed_at timestamptz)`)
	s.Exec(t, "insert into outbox_messages (id, key) select i, case when i % 2 = 0 then 'KEY' else 'key' end from "+
		"generate_series(1, 6) i")
	table := open(t, s, Config{})
	s.Exec(t, "create index by_key on outbox_messages ("+table.mapping.keyHash()+", id) where relayed_at is null")
	if table = open(t, s, Config{}); !table.KeyIndexed() {
		t.Fatal("the index is not found")
	}
	rows := tail(t, table, Query{}).Rows
	asks := []Ask{{Hash: rows[0].Hash, Limit: 9}, {Hash: rows[1].Hash, Limit: 9}}
	page, err := table.Keys(t.Context(), Query{Asks: asks, Most: anyNumber})
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
	rows := tail(t, table, Query{}).Rows
	if len(rows) != 2 || rows[0].Hash == rows[1].Hash || len(rows[0].Message.Key) != 96_001 {
		t.Errorf("%d rows", len(rows))
	}
}

// The keys of failed rows are read in parts, without any text. A row that was discarded and kept has not failed.
func TestBlockedKeys(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	table := keyTable(t, s, "text", true)
	s.Exec(t, `insert into outbox_messages (id, seq, topic, key, failed_at, relayed_at) select i, i, 't', nullif('key ' ||
		i, 'key 5'),
		now() + i / 2 * interval '1 s', case when i = 6 then now() end from generate_series(1, 9) i`)
	var hashes []uint64
	for q := (Query{Most: Most{Rows: 2}}); ; {
		page, err := table.Blocked(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Rows {
			hashes, q.After = append(hashes, r.Hash), r.Position
		}
		if !page.Full {
			break
		}
	}
	if len(hashes) != 7 {
		t.Errorf("%d keys", len(hashes))
	}
}

// A sweep meets every pending row up to a position, once and in order, without its contents.
func TestSweep(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	table := keyTable(t, s, "text", true)
	s.Exec(t, `insert into outbox_messages (id, seq, topic, key, relayed_at) select i, i / 2, 'topic ' || i, nullif('key '
		|| i % 3, 'key 0'),
		case when i = 5 then now() end from generate_series(1, 9) i`)
	rows := tail(t, table, Query{}).Rows
	var ids string
	for q := (Query{Sweep: true, Most: Most{Rows: 3}, Upto: rows[6].Position}); ; {
		page, err := table.Tail(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Rows {
			i := slices.IndexFunc(rows, func(row Row) bool { return row.Identity() == r.Identity() })
			row := rows[i]
			if r.Hash != row.Hash || r.Message.Topic != row.Message.Topic || len(r.Message.Payload) > 0 ||
				(r.Message.Key == nil) != (row.Message.Key == nil) || r.Shard != row.Shard ||
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
