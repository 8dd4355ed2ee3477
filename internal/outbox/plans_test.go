package outbox

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/sql"
)

// The plans that the shapes' own indexes allow: a read in its order, never a sort of the backlog.
func TestPlans(t *testing.T) {
	t.Parallel()
	for name, shape := range shapes {
		if name == "C" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, shape)
			s.Exec(t, `insert into outbox_messages (topic, payload, inserted_at, updated_at)
				select 't', '{}', now() - i * interval '1 second', now() from generate_series(1, 5000) i`)
			s.Exec(t, "analyze outbox_messages")
			table := open(t, s, Config{})
			statement := table.tail.of(table, &Query{After: At(1, "any")}).statement
			statement = strings.NewReplacer("$1", "100", "$2", "null", "$3", "65536", "$4", "'2020-01-01'",
				"$5", "'00000000-0000-0000-0000-000000000000'").Replace(statement)
			plan := explain(t, s, statement)
			if !strings.Contains(plan, "Index Scan") || strings.Contains(plan, "Seq Scan") ||
				strings.Contains(plan, ">  Sort  (") {
				t.Errorf("plan:\n%s", plan)
			}
		})
	}
}

// Statistics that were gathered while nothing was pending must not make a page fetch and sort the whole backlog.
func TestPlansWithStatisticsOfAnEmptyBacklog(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
	s.Exec(t, "alter table outbox_messages set (autovacuum_enabled = off)")
	s.Exec(t, "insert into outbox_messages (topic, payload, relayed_at) select 't', '{}', now() from generate_series(1, "+
		"20000)")
	s.Exec(t, "analyze outbox_messages")
	s.Exec(t, "insert into outbox_messages (topic, payload) select 't', '{}' from generate_series(1, 20000)")
	plans := &planLog{}
	table, err := Open(t.Context(), plans.pool(t, s), Config{Table: sql.Table{Name: "outbox_messages"}})
	if err != nil {
		t.Fatal(err)
	}
	plans.take()
	some := Most{Rows: 100}
	first := tail(t, table, Query{Most: some})
	tail(t, table, Query{Most: some, After: end(first.Rows)})
	low := first.Rows[50].Position.Ordinal
	tail(t, table, Query{Most: some, After: end(first.Rows), Seen: &first.Visible, Low: &low, Shards: []int{0}})
	if _, err := table.Count(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := table.Left(t.Context(), new(End)); err != nil {
		t.Fatal(err)
	}
	const reads = 3 + 1 + 2 // a count; an end, and what is left
	found := 0
	for _, plan := range plans.take() {
		if !strings.Contains(plan, "outbox_messages") || strings.Contains(plan, "pg_catalog") {
			continue
		}
		found++
		if !strings.Contains(plan, "Index ") || strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "Bitmap") ||
			strings.Contains(plan, ">  Sort  (") {
			t.Errorf("plan:\n%s", plan)
		}
	}
	if found != reads {
		t.Errorf("%d plans of %d statements", found, reads)
	}
}

// Such statistics must not make a mark scan the index of pending rows instead of going to its rows, either.
func TestMarksFindTheirRowsWithStatisticsOfAnEmptyBacklog(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, pgtest.ShapeA) // its index serves relayed_at only
	s.Exec(t, "alter table outbox_messages set (autovacuum_enabled = off)")
	const fill = `insert into outbox_messages (topic, payload, inserted_at, updated_at, relayed_at) select 't', '{}',
		now(), now(), %s
		from generate_series(1, 20000)`
	s.Exec(t, fmt.Sprintf(fill, "now()"))
	s.Exec(t, "analyze outbox_messages")
	s.Exec(t, fmt.Sprintf(fill, "null"))
	plans := &planLog{}
	table, err := Open(t.Context(), plans.pool(t, s), Config{Table: sql.Table{Name: "outbox_messages"}})
	if err != nil {
		t.Fatal(err)
	}
	page := tail(t, table, Query{Most: Most{Rows: 400}})
	rows := make([]*Row, len(page.Rows))
	for i := range page.Rows {
		rows[i] = &page.Rows[i]
	}
	plans.take()
	if err := settle(t.Context(), table, rows[:100]); err != nil { // by place
		t.Fatal(err)
	}
	s.Exec(t, "update outbox_messages set topic = topic where id in (select id from outbox_messages where relayed_at is "+
		"null)")
	if err := settle(t.Context(), table, rows[100:200]); err != nil { // by id
		t.Fatal(err)
	}
	if _, err := settleFree(t.Context(), table, rows[200:300]); err != nil {
		t.Fatal(err)
	}
	refusal := refusal(rows[300].Identity(), 1, "no")
	if _, _, err := refuse(t.Context(), table, []Refusal{refusal}); err != nil {
		t.Fatal(err)
	}
	updates := 0
	for _, plan := range plans.take() {
		if strings.Contains(plan, "Update on outbox_messages") {
			updates++
		}
		if strings.Contains(plan, "outbox_messages_relayed_at") || strings.Contains(plan, "Seq Scan on outbox_messages") {
			t.Errorf("plan:\n%s", plan)
		}
	}
	if updates < 4 {
		t.Errorf("%d updates were explained", updates)
	}
	if left := pgtest.Value[int](t, s,
		"select count(*) from outbox_messages where relayed_at is null"); left != 20_000-300 {
		t.Errorf("%d rows are left", left)
	}
}

// Nor must they affect a read by id: a row that is tried again and again must not cost a read of the backlog each time.
func TestReadsByIDFindTheirRowsWithStatisticsOfAnEmptyBacklog(t *testing.T) {
	t.Parallel()
	for name, schema := range map[string]string{
		"recommended": sql.Schema(messages), "A": pgtest.ShapeA,
		"B": pgtest.ShapeB,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, schema)
			s.Exec(t, "alter table outbox_messages set (autovacuum_enabled = off)")
			const fill = `insert into outbox_messages (topic, payload, inserted_at, updated_at, relayed_at)
				select 't', to_json(repeat('x', $1)), now(), now(), %s from generate_series(1, 20000)`
			s.Exec(t, fmt.Sprintf(fill, "now()"), 1)
			s.Exec(t, "analyze outbox_messages")
			s.Exec(t, fmt.Sprintf(fill, "null"), 1)
			s.Exec(t, "update outbox_messages set payload = to_json(repeat('x', 100000)) where id = (select "+
				"max(id::text)::uuid from "+
				"outbox_messages where relayed_at is null)")
			large := pgtest.Value[[16]byte](t, s, "select max(id::text)::uuid from outbox_messages where relayed_at is null")
			plans := &planLog{}
			table, err := Open(t.Context(), plans.pool(t, s), Config{Table: messages})
			if err != nil {
				t.Fatal(err)
			}
			plans.take()
			if rows := byID(t, table, string(large[:])); len(rows) != 1 || len(rows[0].Message.Payload) < 100000 {
				t.Fatalf("%d rows", len(rows))
			}
			found := 0
			for _, plan := range plans.take() {
				if !strings.Contains(plan, "outbox_messages") {
					continue
				}
				found++
				if !strings.Contains(plan, "outbox_messages_pkey") {
					t.Errorf("plan:\n%s", plan)
				}
			}
			if found != 1 {
				t.Errorf("%d plans", found)
			}
		})
	}
}

// planLog gathers the plans of a pool's statements, which auto_explain sends as notices.
type planLog struct {
	mu    sync.Mutex
	plans []string
}

func (l *planLog) pool(t *testing.T, s *pgtest.Schema) *pgxpool.Pool { return l.poolWith(t, s, nil) }

// poolWith returns a pool whose sessions also have these settings.
func (l *planLog) poolWith(t *testing.T, s *pgtest.Schema, settings map[string]string) *pgxpool.Pool {
	return l.poolOf(t, s, func(c *pgxpool.Config) { maps.Copy(c.ConnConfig.RuntimeParams, settings) })
}

// poolOf returns a pool that is changed in another way.
func (l *planLog) poolOf(t *testing.T, s *pgtest.Schema, change func(*pgxpool.Config)) *pgxpool.Pool {
	return s.PoolWith(t, func(c *pgxpool.Config) {
		change(c)
		for name, value := range map[string]string{
			"session_preload_libraries": "auto_explain", "auto_explain.log_min_duration": "0",
			"auto_explain.log_level": "notice",
		} {
			c.ConnConfig.RuntimeParams[name] = value
		}
		c.ConnConfig.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) {
			l.mu.Lock()
			defer l.mu.Unlock()
			if strings.Contains(notice.Message, "outbox_messages") && !strings.Contains(notice.Message, "pg_catalog") {
				l.plans = append(l.plans, notice.Message)
			}
		}
	})
}

func (l *planLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	plans := l.plans
	l.plans = nil
	return plans
}

// explain returns the plan of a statement.
func explain(t *testing.T, s *pgtest.Schema, statement string) string {
	t.Helper()
	rows, err := s.Pool.Query(t.Context(), "explain "+statement)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}
