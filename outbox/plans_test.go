package outbox

import (
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/sql"
)

// The plans that the shapes' own indexes allow: an ordered walk, never a sort of the backlog.
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
			statement := strings.NewReplacer("$1", "100", "$2", "'2020-01-01'", "$3", "'00000000-0000-0000-0000-000000000000'").Replace(table.all.after)
			plan := explain(t, s, statement)
			if !strings.Contains(plan, "Index Scan") || strings.Contains(plan, "Seq Scan") || strings.Contains(plan, ">  Sort  (") {
				t.Errorf("plan:\n%s", plan)
			}
		})
	}
}

// Statistics that were gathered while nothing was pending must not let a page of a backlog fetch and sort all of it.
func TestPlansWithStatisticsOfAnEmptyBacklog(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
	s.Exec(t, "alter table outbox_messages set (autovacuum_enabled = off)")
	s.Exec(t, "insert into outbox_messages (topic, payload, relayed_at) select 't', '{}', now() from generate_series(1, 20000)")
	s.Exec(t, "analyze outbox_messages")
	s.Exec(t, "insert into outbox_messages (topic, payload) select 't', '{}' from generate_series(1, 20000)")
	plans := &planLog{}
	table, err := Open(t.Context(), plans.pool(t, s), Config{Table: sql.Table{Name: "outbox_messages"}})
	if err != nil {
		t.Fatal(err)
	}
	first := read(t, table, Query{Limit: 100, Horizon: true})
	read(t, table, Query{Limit: 100, After: first.End})
	recent := first.Rows[50].Position.Ordinal
	read(t, table, Query{Limit: 100, Recent: &recent, Shards: []int{0}})
	if _, err := table.Count(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := table.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	const reads = 3 + 1 + 3 + 1 // with a horizon, two gauges and the age
	found := 0
	for _, plan := range plans.take() {
		if !strings.Contains(plan, "outbox_messages") || strings.Contains(plan, "pg_catalog") {
			continue
		}
		found++
		if !strings.Contains(plan, "Index ") || strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "Bitmap") || strings.Contains(plan, ">  Sort  (") {
			t.Errorf("plan:\n%s", plan)
		}
	}
	if found != reads {
		t.Errorf("%d plans of %d statements", found, reads)
	}
}

// planLog gathers the plans of a pool's statements, which auto_explain sends as notices.
type planLog struct {
	mu    sync.Mutex
	plans []string
}

func (l *planLog) pool(t *testing.T, s *pgtest.Schema) *pgxpool.Pool {
	config, err := pgxpool.ParseConfig(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"session_preload_libraries": "auto_explain", "auto_explain.log_min_duration": "0", "auto_explain.log_level": "notice"} {
		config.ConnConfig.RuntimeParams[name] = value
	}
	config.ConnConfig.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.plans = append(l.plans, notice.Message)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
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
