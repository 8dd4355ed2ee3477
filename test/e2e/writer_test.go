package e2e

import (
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// writer writes rows with increasing numbers until a test ends it.
type writer struct {
	rows  int // first number that was not used, once it has ended
	ended chan struct{}
	once  sync.Once
	done  chan struct{}
}

// startWriter executes a statement repeatedly, which inserts the rows with the numbers from $1 to $2. Each execution
// inserts all of these rows or none.
func startWriter(t testing.TB, pool *pgxpool.Pool, from, rows int, statement string) *writer {
	w := &writer{rows: from, ended: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-w.ended:
				return
			case <-ticker.C:
			}
			tag, err := pool.Exec(t.Context(), statement, w.rows, w.rows+rows-1)
			if err != nil {
				if t.Context().Err() == nil {
					t.Errorf("write rows: %v", err)
				}
				return
			}
			w.rows += int(tag.RowsAffected())
		}
	}()
	t.Cleanup(w.end)
	return w
}

// end ends the writing.
func (w *writer) end() {
	w.once.Do(func() { close(w.ended) })
	<-w.done
}
