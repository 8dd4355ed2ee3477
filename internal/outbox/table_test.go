package outbox

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/sql"
)

var messages = sql.Table{Name: "outbox_messages"}

func open(t *testing.T, s *pgtest.Schema, config Config) *Table {
	t.Helper()
	if config.Table.Name == "" {
		config.Table = messages
	}
	table, err := Open(t.Context(), s.Pool, config)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// scan returns the rows of all pages of a scan, each of so many rows.
func scan(t *testing.T, table *Table, q Query, rows int) (all []Row) {
	t.Helper()
	for q.Most = (Most{Rows: rows}); ; q.After, q.Seen = end(all), nil {
		page := tail(t, table, q)
		if all = append(all, page.Rows...); !page.Full {
			return all
		}
	}
}

// end is the position of the last of some rows.
func end(rows []Row) Position { return rows[len(rows)-1].Position }

// byID returns the pending rows with these ids.
func byID(t *testing.T, table *Table, ids ...string) (rows []Row) {
	t.Helper()
	if err := table.readByID(t.Context(), ids, func(r *Row) { rows = append(rows, *r) }); err != nil {
		t.Fatal(err)
	}
	return rows
}

var shapes = map[string]string{"A": pgtest.ShapeA, "B": pgtest.ShapeB, "C": pgtest.ShapeC}

// Each shape in pages, whatever the session's time zone is: order, content, mark, refusal, failure.
func TestShapes(t *testing.T) {
	t.Parallel()
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, shape)
			zoned, err := pgxpool.New(t.Context(), s.URL+"&TimeZone=Asia%2FTokyo")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(zoned.Close)
			table, err := Open(t.Context(), zoned, Config{Table: messages})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 25 {
				s.Exec(t, pgtest.Insert, fmt.Sprint("topic", i), fmt.Sprintf(`{"n": %d.50, "big": 12345678901234567890}`, i))
			}
			if name == "A" { // the others either forbid NULL or count from 0
				s.Exec(t, "update outbox_messages set headers = null, attempt = null where topic = 'topic3'")
			}

			rows := scan(t, table, Query{}, 10)
			if len(rows) != 25 {
				t.Fatalf("read %d rows of 25", len(rows))
			}
			var got, want []string
			for _, row := range rows {
				got = append(got, row.Message.ID)
			}
			want = append(want, pgtest.Value[[]string](t, s,
				"select array_agg(id::text order by inserted_at, id) from outbox_messages")...)
			if !slices.Equal(got, want) {
				t.Errorf("order %v, want %v", got, want)
			}
			first := rows[slices.IndexFunc(rows, func(r Row) bool { return r.Message.Topic == "topic3" })]
			if text := string(first.Message.Payload); text != `{"n": 3.50, "big": 12345678901234567890}` {
				t.Errorf("payload %s", text)
			}
			start := map[string]int64{"A": 1, "B": 1, "C": 0}[name]
			if first.Attempt != start || len(first.Message.Headers) != 0 {
				t.Errorf("attempt and headers read as %d, %v", first.Attempt, first.Message.Headers)
			}
			if d := time.Since(first.Message.Inserted).Abs(); d > time.Minute {
				t.Errorf("inserted %v ago", d)
			}

			if err := settle(t.Context(), table, []*Row{&rows[0], &rows[1]}); err != nil {
				t.Fatal(err)
			}
			if n := pgtest.Value[int](t, s, `select count(*) from outbox_messages where relayed_at between
				(now() at time zone 'UTC') - interval '1 minute' and (now() at time zone 'UTC') + interval '1 minute'`); n != 2 {
				t.Errorf("%d rows carry relayed_at in UTC, want 2", n)
			}
			long := strings.Repeat("é", 300) + "\x00\xff"
			written, _, err := refuse(t.Context(), table, []Refusal{
				refusal(first.ID(), start, "no\x00\xff"),
				failure(rows[9].ID(), rows[9].Attempt, long),
				refusal(rows[8].ID(), 7, "somebody else was here"),
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(written) != 2 || slices.Contains(written, rows[8].ID()) {
				t.Errorf("%d refusals were written, want the two whose attempt was as read", len(written))
			}
			page := tail(t, table, Query{})
			if len(page.Rows) != 22 {
				t.Fatalf("%d rows pending, want 22", len(page.Rows))
			}
			for _, row := range page.Rows {
				if row.ID() != first.ID() {
					continue
				}
				if row.Attempt != start+1 || !row.Retried || row.Waited < -time.Second || row.Waited > time.Minute {
					t.Errorf("after a refusal: attempt %d, retried %v, waited %v", row.Attempt, row.Retried, row.Waited)
				}
			}
			if text := pgtest.Value[string](t, s,
				"select last_error from outbox_messages where failed_at is not null"); name != "B" &&
				text != strings.Repeat("é", 255) {
				t.Errorf("last_error was not cut to 255 characters: %d bytes", len(text))
			}
			counts, err := table.Count(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if name == "C" {
				if counts.Pending != nil || counts.Failed != nil || counts.Oldest != nil {
					t.Errorf("without indexes nothing may be measured: %+v", counts)
				}
			} else if counts.Pending == nil || *counts.Pending != 22 || counts.Failed == nil || *counts.Failed != 1 ||
				counts.Oldest == nil ||
				*counts.Oldest < 0 {
				t.Errorf("counts %+v", counts)
			}
		})
	}
}

func TestDelete(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, `create table outbox_messages (id bigint primary key, topic text, payload text)`)
	s.Exec(t, `insert into outbox_messages values (1, 't', 'x'), (2, 't', 'y')`)
	table := open(t, s, Config{Delete: true})
	page := tail(t, table, Query{})
	if err := settle(t.Context(), table, []*Row{&page.Rows[0]}); err != nil {
		t.Fatal(err)
	}
	if n := pgtest.Value[int](t, s, "select count(*) from outbox_messages"); n != 1 {
		t.Errorf("%d rows left, want 1", n)
	}
	written, _, err := refuse(t.Context(), table, []Refusal{refusal(page.Rows[1].ID(), 1, "")})
	if err != nil || len(written) != 1 {
		t.Errorf("a table that keeps no refusals: %v, %v", written, err)
	}
}
