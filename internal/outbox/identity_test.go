package outbox

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/sql"
)

// twins is a partitioned table with 100 ids, each in two partitions, at the same place in both.
const twins = `create table outbox_messages (id bigint not null, topic text, payload text, part int, relayed_at
	timestamptz, attempt int
default 1, last_error text, primary key (id, part)) partition by list (part);
	create table one partition of outbox_messages for values in (1); create table two partition of outbox_messages for
	values in (2);
	insert into outbox_messages (id, topic, payload, part) select i, 't', part || '-' || i, part from generate_series(1,
	2) part,
	generate_series(1, 100) i`

// Writing a row writes no other row with its id, whether or not the other one has been read.
func TestRowsWithOneIDAreDistinguished(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]Config{"mark": {}, "delete": {Delete: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, twins, pgx.QueryExecModeSimpleProtocol)
			table := open(t, s, config)
			rows := map[string]*Row{}
			page := tail(t, table, Query{Most: Most{Rows: 1000}})
			for i := range page.Rows {
				rows[string(page.Rows[i].Message.Payload)] = &page.Rows[i]
			}
			if len(rows) != 200 {
				t.Fatalf("%d rows were read", len(rows))
			}
			pick := func(payloads ...string) (picked []*Row) {
				for _, payload := range payloads {
					picked = append(picked, rows[payload])
				}
				return picked
			}
			if err := settle(t.Context(), table, pick("1-1", "2-2", "1-3")); err != nil {
				t.Error(err)
			}
			refusals := []Refusal{
				refusal(rows["2-1"].Identity(), 1, "no"),
				refusal(rows["1-2"].Identity(), 1, "no"),
			}
			written, locked, err := refuse(t.Context(), table, refusals)
			slices.Sort(written)
			if want := []string{refusals[0].Identity(), refusals[1].Identity()}; err != nil || len(locked) > 0 ||
				!slices.Equal(written, slices.Sorted(slices.Values(want))) {
				t.Errorf("refused %q, locked %q, %v", written, locked, err)
			}
			if refused := pgtest.Value[string](t, s,
				"select string_agg(payload, ' ' order by payload) from outbox_messages where attempt = 2 and last_error = 'no'"); refused != "1-2 2-1" {
				t.Errorf("refused: %s", refused)
			}
			tx, err := s.Pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(),
				"select from outbox_messages where payload in ('1-5', '2-6') for update"); err != nil {
				t.Fatal(err)
			}
			both := pick("1-5", "1-6", "2-7")
			if locked, err := settleFree(t.Context(), table, both); err != nil ||
				!slices.Equal(locked, []string{both[0].Identity()}) {
				t.Errorf("locked %q, %v", locked, err)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Error(err)
			}
			left := map[string]bool{}
			for _, row := range tail(t, table, Query{Most: Most{Rows: 1000}}).Rows {
				left[string(row.Message.Payload)] = true
			}
			for _, settled := range []string{"1-1", "2-2", "1-3", "1-6", "2-7"} {
				if left[settled] {
					t.Errorf("%s is pending", settled)
				}
			}
			if len(left) != 195 {
				t.Errorf("%d rows are pending, want 195", len(left))
			}
		})
	}
}

// So it is where rows are marked at their places in a range of partitions: each of ten days has the same ids at the same
// places, inserted in one transaction.
func TestRowsWithOneIDAtOnePlaceAreDistinguished(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, `create table outbox_messages (id bigint not null, topic text, payload text, at date not null,
		relayed_at timestamptz, primary key (id, at)) partition by range (at)`)
	s.Exec(t, `do $$ begin for i in 0..9 loop execute format('create table p%s partition of outbox_messages
		for values from (%L) to (%L)', i, current_date + i, current_date + i + 1); end loop; end $$`)
	s.Exec(t, `insert into outbox_messages select i, 't', day || '-' || i, current_date + day
		from generate_series(0, 9) day, generate_series(1, 3) i`)
	table := open(t, s, Config{})
	page := tail(t, table, Query{})
	var rows []*Row
	for i := range page.Rows {
		if slices.Contains([]string{"0-1", "9-2"}, string(page.Rows[i].Message.Payload)) {
			rows = append(rows, &page.Rows[i])
		}
	}
	if err := settle(t.Context(), table, rows); err != nil || len(rows) != 2 || table.relation.parts == nil {
		t.Errorf("%d rows: %v", len(rows), err)
	}
	const marked = "select string_agg(payload, ' ' order by payload) from outbox_messages where relayed_at is not null"
	if marked := pgtest.Value[string](t, s, marked); marked != "0-1 9-2" {
		t.Errorf("marked: %s", marked)
	}
}

// So it is where each part of a table has a sequence of its own: one transaction gives rows of several parts the same
// id and the same time. A mark finds no place in them, or the same place in each.
func TestRowsOfSeveralPartsAreDistinguished(t *testing.T) {
	t.Parallel()
	const columns = "(id bigint, topic text, payload text, part int, inserted_at timestamptz default now(), " +
		"relayed_at timestamptz)"
	for name, ddl := range map[string]string{
		"partitions": "create table outbox_messages " + columns + ` partition by list (part);
			create table one partition of outbox_messages for values in (1);
			create table two partition of outbox_messages for values in (2);`,
		"children": "create table outbox_messages " + columns + `;
			create table one () inherits (outbox_messages); create table two () inherits (outbox_messages);`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, ddl+`begin; insert into one select i, 't', '1-' || i, 1 from generate_series(1, 100) i;
				insert into two select i, 't', '2-' || i, 2 from generate_series(1, 100) i; commit`,
				pgx.QueryExecModeSimpleProtocol)
			table := open(t, s, Config{})
			rows, identities := tail(t, table, Query{}).Rows, map[string]bool{}
			for i := range rows {
				identities[rows[i].Identity()] = true
			}
			if len(identities) != 200 {
				t.Errorf("%d rows of 200 are told apart", len(identities))
			}
			for i, free := range []bool{false, true} {
				if _, err := table.Settle(t.Context(), []*Row{&rows[i]}, free); err != nil {
					t.Error(err)
				}
			}
			if left := len(tail(t, table, Query{}).Rows); left != 198 {
				t.Errorf("%d rows are pending, want 198", left)
			}
		})
	}
}

// A column named seq that has no useful order is not used, and the warnings say so.
func TestSeqWithoutOrder(t *testing.T) {
	t.Parallel()
	for _, typ := range []string{"json", "jsonb", "xml", "boolean"} {
		s := pgtest.New(t)
		s.Exec(t, "create table outbox_messages (id bigint primary key, topic text, payload text, seq "+typ+
			", inserted_at timestamptz not null default now(), relayed_at timestamptz)")
		table := open(t, s, Config{})
		if rows := tail(t, table, Query{}).Rows; len(rows) != 0 || table.mapping.Order.Plain != "inserted_at" ||
			!slices.Contains(table.mapping.ignored, "seq ("+typ+")") {
			t.Errorf("%s: order %s, ignored %q", typ, table.mapping.Order.Plain, table.mapping.ignored)
		}
	}
}

// A page may end at a row without an id, which fails. Reads that go on from there find what comes later.
func TestReadsGoOnAfterRowsWithoutID(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, "create table outbox_messages (id int, topic text, payload text, seq bigint not null, relayed_at timestamptz)")
	s.Exec(t, "insert into outbox_messages select nullif(i, 2), 't', i, i from generate_series(1, 4) i")
	table := open(t, s, Config{})
	page := tail(t, table, Query{Most: Most{Rows: 2}})
	for _, q := range []Query{{}, {Sweep: true}} {
		q.After = page.Rows[1].Position
		if rest := tail(t, table, q).Rows; page.Rows[1].Invalid == nil || len(rest) != 2 || rest[0].ID() == "" {
			t.Errorf("%v: %d rows, %v", q.Sweep, len(rest), page.Rows[1].Invalid)
		}
	}
	if upto := tail(t, table, Query{Sweep: true, Upto: page.Rows[1].Position}).Rows; len(upto) == 0 {
		t.Error("nothing up to there")
	}
}

// If no unique index holds the id, the order value tells rows apart, also after they have been changed.
func TestChangedRowAmongOthersWithItsID(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, strings.Replace(twins, ", primary key (id, part)", "", 1), pgx.QueryExecModeSimpleProtocol)
	table := open(t, s, Config{Columns: map[string]string{"order": "part"}})
	rows := tail(t, table, Query{}).Rows
	s.Exec(t, "update outbox_messages set topic = 'changed' where id = 1 and part = 2")
	if err := settle(t.Context(), table, []*Row{&rows[0]}); err != nil || len(rows) != 200 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
	again := tail(t, table, Query{}).Rows
	if len(again) != 199 || again[99].ID() != rows[0].ID() || again[99].Identity() == rows[0].Identity() ||
		again[99].Identity() != rows[100].Identity() {
		t.Errorf("read again: %d rows", len(again))
	}
}

// If ids are known to be unique, they are sufficient. Otherwise marks find their rows by place, or by the id and a
// column with which it is unique.
func TestIdentity(t *testing.T) {
	t.Parallel()
	const columns = "(id uuid not null, topic text, payload text, relayed_at timestamptz, seq int not null"
	for name, c := range map[string]struct {
		ddl   string
		apart bool
	}{
		"recommended": {recommended(), false},
		"A":           {pgtest.ShapeA, false},
		"unique":      {"create table outbox_messages " + columns + ", unique (id))", false},
		"with null": {"create table outbox_messages " + columns +
			", unique (id)); alter table outbox_messages alter id drop not null", true},
		"of some rows": {"create table outbox_messages " + columns +
			"); create unique index on outbox_messages (id) where relayed_at is null; create index on outbox_messages (id)", true},
		"with the topic": {"create table outbox_messages " + columns + ", unique (id, topic))", true},
		"an expression": {"create table outbox_messages " + columns +
			"); create unique index on outbox_messages ((id::text)); create index on outbox_messages (id)", true},
		"plain": {"create table outbox_messages " + columns + "); create index on outbox_messages (id)", true},
		"inherited": {"create table outbox_messages " + columns +
			", primary key (id)); create table child () inherits (outbox_messages)", true},
		"partitioned by id": {
			"create table outbox_messages " + columns +
				", primary key (id)) partition by hash (id); create table one partition of outbox_messages for values with " +
				"(modulus 1, remainder 0)",
			false,
		},
		"partitioned by time": {
			"create table outbox_messages " + columns +
				", at date, primary key (id, at)) partition by range (at); create table one partition of outbox_messages default",
			true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, c.ddl, pgx.QueryExecModeSimpleProtocol)
			plans := &planLog{}
			table, err := Open(t.Context(), plans.pool(t, s), Config{Table: sql.Table{Name: "outbox_messages"}})
			if err != nil {
				t.Fatal(err)
			}
			if table.mapping.compound() != c.apart {
				t.Fatalf("distinguished: %v", table.mapping.compound())
			}
			if !c.apart {
				return
			}
			at := ""
			if strings.Contains(c.ddl, "at date") {
				at = ", now()"
			}
			s.Exec(t, "insert into outbox_messages select gen_random_uuid(), 't', i, null, i"+at+
				" from generate_series(1, 20000) i")
			s.Exec(t, "analyze outbox_messages")
			page := tail(t, table, Query{Most: Most{Rows: 300}})
			rows := make([]*Row, len(page.Rows))
			for i := range page.Rows {
				rows[i] = &page.Rows[i]
			}
			plans.take()
			if err := settle(t.Context(), table, rows[:100]); err != nil {
				t.Fatal(err)
			}
			if _, err := settleFree(t.Context(), table, rows[100:200]); err != nil {
				t.Fatal(err)
			}
			for _, plan := range plans.take() {
				if strings.Contains(plan, "Query Text: explain") { // takes the lock, and goes over no row
					continue
				}
				found := strings.Contains(plan, "Tid Scan on") || strings.Contains(plan, "Index Cond: (id = ANY")
				// not an empty child's
				if strings.Contains(plan, "Update on") && (!found || strings.Contains(plan, "Seq Scan on o")) {
					t.Errorf("plan:\n%s", plan)
				}
			}
			if left := pgtest.Value[int](t, s, "select count(*) from outbox_messages where relayed_at is null"); left != 19_800 {
				t.Errorf("%d rows are left", left)
			}
		})
	}
}
