package outbox

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// delaying is the additional output of `outbox-relay schema --delays` for the recommended table.
func delaying() string {
	return (&Config{Table: messages}).DelaySchema(View{})
}

// Where there is an index of due times, rows with available_at come by a read of their own, each once and in the order
// of that time, and by their ids. All other reads leave them out. This holds for all types, without an order or with
// priorities, and for one destination.
func TestDueReads(t *testing.T) {
	t.Parallel()
	const due = `create index on outbox_messages (available_at) where relayed_at is null and failed_at is null and
		available_at is not null;`
	for name, ddl := range map[string]string{
		"schema --delays":   recommended() + delaying(),
		"times in UTC":      recommended() + "alter table outbox_messages add available_at timestamp;" + due,
		"priority":          recommended() + "alter table outbox_messages add priority int default 3;" + delaying(),
		"order may be null": recommended() + "alter table outbox_messages alter seq drop identity, alter seq drop not null;" + delaying(),
		"order of the times": strings.Replace(recommended(), "seq         bigint generated always as identity,", "",
			1)[:strings.Index(strings.Replace(recommended(), "seq         bigint generated always as identity,", "", 1),
			"create index")] +
			"alter table outbox_messages add available_at timestamptz; " + due,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			// Many rows are due at the same time, and pages end among them.
			s.Exec(t, ddl+`;set timezone = 'UTC';
				insert into outbox_messages (topic, key, payload, available_at) select 't', 'k', '{}', '2020-01-01'::timestamp + (n
				/ 10) * interval
				'1 minute' from generate_series(1, 100) n;
				insert into outbox_messages (topic, key, payload, available_at) select 't', 'k', '{}', (now() at time zone 'UTC') +
				n * interval
				'1 hour' from generate_series(1, 50) n;
				insert into outbox_messages (topic, key, payload, available_at) values ('t', 'k', '{}', '-infinity'), ('t', 'k',
				'{}', 'infinity');
				insert into outbox_messages (topic, key, payload, available_at, relayed_at) values ('t', 'k', '{}', '2020-01-01',
				now());
				insert into outbox_messages (topic, key, payload, available_at, failed_at) values ('t', 'k', '{}', '2020-01-01',
				now());
				insert into outbox_messages (topic, key, payload) select 't', 'k', '{}' from generate_series(1, 5);
				insert into outbox_messages (topic, key, payload, available_at) select 'other', 'k', '{}', '2020-01-01' from
				generate_series(1, 7) n`)
			all := open(t, s, Config{Shards: 4})
			if !all.ReadsDue() || all.Delays() {
				t.Fatal("the index of due times was not found")
			}
			for _, table := range []*Table{all, filtered(t, all, Filter{Topics: []string{"t"}})} {
				want := 101
				if table == all {
					want += 7
				}
				for _, shards := range [][]int{nil, {0, 1, 2, 3}} {
					seen, last := map[string]bool{}, time.Time{}
					for q := (Query{Due: true, Most: Most{Rows: 7}, Shards: shards}); ; {
						page := tail(t, table, q)
						for _, r := range page.Rows {
							if seen[r.Message.ID] || r.Due.Before(last) && name != "times in UTC" || !r.Delayed || !r.Timed {
								t.Errorf("%s is due at %v: seen %v, after %v", r.Message.ID, r.Due, seen[r.Message.ID], last)
							}
							seen[r.Message.ID] = true
						}
						if page.Next < 59*time.Minute || page.Next > time.Hour {
							t.Errorf("the next row is due in %v", page.Next)
						}
						if !page.Full {
							break
						}
						q.After = end(page.Rows)
					}
					if len(seen) != want {
						t.Errorf("%d rows, want %d", len(seen), want)
					}
					if n := len(tail(t, table, Query{Shards: shards}).Rows); n != 5 {
						t.Errorf("%d rows in table order", n)
					}
				}
				page := tail(t, table, Query{Due: true, Most: Most{Rows: 3}})
				var ids []string
				for _, r := range page.Rows {
					ids = append(ids, r.ID())
				}
				if again := byID(t, table, ids...); len(again) != 3 || !again[0].Delayed ||
					!slices.ContainsFunc(page.Rows, func(r Row) bool { return r.Position == again[0].Position }) {
					t.Errorf("%d rows by their ids", len(again))
				}
				if m := all.mapping; m.followed {
					counts, err := table.Count(t.Context())
					if err != nil || *counts.Pending != int64(want)+5 || *counts.Scheduled != 51 || counts.Oldest == nil {
						t.Errorf("counts: %v (%v)", counts, err)
					}
				}
				if left, err := table.Left(t.Context(), new(End)); err != nil || left != int64(want)+5 {
					t.Errorf("%d rows are left: %v", left, err)
				}
			}
			s.Exec(t, "update outbox_messages set available_at = 'infinity' where available_at is not null")
			if page := tail(t, all, Query{Due: true}); len(page.Rows) != 0 || page.Next != 0 {
				t.Errorf("%d rows, the next in %v", len(page.Rows), page.Next)
			}
			s.Exec(t, "update outbox_messages set relayed_at = now() where available_at is null")
			if counts, err := all.Count(t.Context()); err != nil || counts.Pending != nil &&
				(*counts.Pending != 0 || *counts.Oldest != 0) {
				t.Errorf("counts: %v (%v)", counts, err)
			}
		})
	}
}

// Rows with available_at are known as such by whichever read they come.
func TestTimedRows(t *testing.T) {
	t.Parallel()
	for name, ddl := range map[string]string{
		"with the index of due times": recommended() + delaying(),
		"without it":                  recommended() + "alter table outbox_messages add available_at timestamptz;",
		"without the column":          recommended(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, ddl+"insert into outbox_messages (topic, payload) values ('plain', '{}')")
			if name != "without the column" {
				s.Exec(t, "insert into outbox_messages (topic, payload, available_at) values ('timed', '{}', now() - interval '1 "+
					"hour')")
			}
			table := open(t, s, Config{Shards: 4})
			rows := tail(t, table, Query{}).Rows
			if table.ReadsDue() {
				rows = append(rows, tail(t, table, Query{Due: true}).Rows...)
			}
			for _, r := range rows {
				if r.Timed != (r.Message.Topic == "timed") || r.Delayed != (r.Timed && table.ReadsDue()) {
					t.Errorf("row %s: %t, %t", r.Message.Topic, r.Timed, r.Delayed)
				}
			}
			if want := map[bool]int{true: 1, false: 2}[name == "without the column"]; len(rows) != want {
				t.Errorf("%d rows, not %d", len(rows), want)
			}
		})
	}
}

// No read steps over rows that are scheduled for later, whether the statistics are from an empty table or are correct,
// and whether or not the index of all pending rows still exists.
func TestNoReadStepsOverScheduledRows(t *testing.T) {
	t.Parallel()
	for _, analyzed := range []bool{false, true} {
		for _, drop := range []string{"", "drop index outbox_messages_pending_idx;"} {
			t.Run(fmt.Sprint(analyzed, drop), func(t *testing.T) {
				t.Parallel()
				s := pgtest.New(t)
				s.Exec(t, recommended()+delaying()+drop+
					"alter table outbox_messages set (autovacuum_enabled = off); analyze outbox_messages")
				s.Exec(t, `insert into outbox_messages (topic, payload) select 't', '{}' from generate_series(1, 100);
					insert into outbox_messages (topic, payload, available_at) select 't', '{}', now() + interval '1 hour' from
					generate_series(1, 20000);
					insert into outbox_messages (topic, payload) select 't', '{}' from generate_series(1, 100);
					insert into outbox_messages (topic, payload, available_at) select 't', '{}', now() - interval '1 hour' from
					generate_series(1, 10)`)
				if analyzed {
					s.Exec(t, "analyze outbox_messages")
				}
				plans := &planLog{}
				table, err := Open(t.Context(), plans.poolWith(t, s, map[string]string{"auto_explain.log_analyze": "on"}),
					Config{Table: messages})
				if err != nil {
					t.Fatal(err)
				}
				plans.take()
				first := tail(t, table, Query{Most: Most{Rows: 50}})
				tail(t, table, Query{Most: Most{Rows: 150}, After: end(first.Rows)})
				if _, err := table.Tail(t.Context(), Query{Sweep: true, Shards: []int{0}, Most: Most{Rows: 300}}); err != nil {
					t.Fatal(err)
				}
				due := tail(t, table, Query{Due: true, Most: Most{Rows: 5}})
				tail(t, table, Query{Due: true, After: end(due.Rows), Shards: []int{0}})
				if counts, err := table.Count(t.Context()); err != nil || *counts.Pending != 210 || *counts.Scheduled != CountCap {
					t.Errorf("counts: %v (%v)", counts, err)
				}
				if _, err := table.Left(t.Context(), new(End)); err != nil {
					t.Fatal(err)
				}
				found := 0
				for _, plan := range plans.take() {
					if !strings.Contains(plan, "outbox_messages") || strings.Contains(plan, "pg_catalog") {
						continue
					}
					found++
					if strings.Contains(strings.ReplaceAll(plan, "Removed by Filter: 1\n", ""), "Rows Removed by") ||
						strings.Contains(plan, "Seq Scan") ||
						strings.Contains(plan, ">  Sort  (") {
						t.Errorf("plan:\n%s", plan)
					}
				}
				if want := 3 + 2 + 1 + 2; found != want {
					t.Errorf("%d plans, want %d", found, want)
				}
			})
		}
	}
}

// An index that contains relayed rows is not an index of due times: it grows with the table.
func TestIndexesOfDueTimes(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	want := map[string]bool{
		"(available_at) where relayed_at is null and failed_at is null and available_at is not null": true,
		"(available_at, seq) where relayed_at is null and failed_at is null":                         true,
		"(available_at) where relayed_at is null":                                                    true,
		"(available_at)": false,
		"(available_at) where failed_at is null and available_at is not null":           false,
		"(available_at) where available_at is not null":                                 false,
		"(seq, available_at) where relayed_at is null":                                  false,
		"(available_at) where relayed_at is null and failed_at is null and topic = 't'": false,
	}
	for index := range want {
		s := pgtest.New(t)
		s.Exec(t, recommended()+"alter table outbox_messages add available_at timestamptz; create index on outbox_messages "+
			index)
		found[index] = open(t, s, Config{}).ReadsDue()
	}
	if !maps.Equal(found, want) {
		t.Errorf("%v", found)
	}
}
