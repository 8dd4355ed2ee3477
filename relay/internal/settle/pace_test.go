package settle

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// slowTable takes some time for each row that it marks, as a table with a slow trigger does.
type slowTable struct {
	Table
	each  time.Duration
	sizes []int
}

func (t *slowTable) Settle(ctx context.Context, rows []*outbox.Row, _ bool) (map[string]error, error) {
	t.sizes = append(t.sizes, len(rows))
	select {
	case <-time.After(time.Duration(len(rows)) * t.each):
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// After a statement has shown how long a row takes, each of the following ones commits within a second or so, and when
// rows are quick again, the statements become large again.
func TestStatementsFollowTheTimeOfARow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := &slowTable{each: 20 * time.Millisecond}
		one := New(1, []Table{table}, nil, func(int, error) {})
		rows := func(n int) (rows []*engine.Row) {
			for i := range n {
				rows = append(rows, &engine.Row{Row: &outbox.Row{Position: outbox.At(int64(i), strconv.Itoa(i))}})
			}
			return rows
		}
		write := func(n int) time.Duration {
			started := time.Now()
			if err := one.write(t.Context(), &order{states: []int{0}, Outcome: engine.Outcome{Rows: rows(n)}}); err != nil {
				t.Fatal(err)
			}
			return time.Since(started)
		}
		write(470)
		if took := write(2000); took > 41*time.Second {
			t.Errorf("2,000 rows took %v", took)
		}
		for _, n := range table.sizes[1:] {
			if n > 100 {
				t.Errorf("a statement had %d rows", n)
			}
		}
		table.each = 10 * time.Microsecond
		write(20_000)
		if last := table.sizes[len(table.sizes)-2]; last < 1000 {
			t.Errorf("at last a statement had %d rows", last)
		}
	})
}
