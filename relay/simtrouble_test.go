package relay

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

var (
	errSimCancelled error = &pgconn.PgError{Code: "57014"} // query_canceled, by statement_timeout
	errSimChanged   error = &pgconn.PgError{Code: "0A000"} // cached plan must not change result type
)

// overdue is a way in which a statement takes longer than it may.
type overdue uint8

const (
	inTime    overdue = iota
	cancelled         // the server cancels it, a little earlier than the caller would
	unheard           // no answer arrives, and nothing was done
	done              // no answer arrives, and it was done
)

// simTrouble is what happens to the next statements. The table's mu guards it.
type simTrouble struct {
	reads, writes []overdue
	version       int // version of the table, see session
}

// take returns what happens to the next statement.
func take(all *[]overdue) (next overdue) {
	if len(*all) > 0 {
		next, *all = (*all)[0], (*all)[1:]
	}
	return next
}

// until lets the time pass that an overdue statement takes.
func (o overdue) until(ctx context.Context) error {
	if o == cancelled {
		deadline, _ := ctx.Deadline()
		select {
		case <-time.After(time.Until(deadline) * 9 / 10):
			return errSimCancelled
		case <-ctx.Done():
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// troubles makes the next statements take longer than they may.
func (t *simTable) troubles(reads, writes []overdue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trouble.reads, t.trouble.writes = reads, writes
}

// alter changes the table so that no session that opened it before can read it.
func (t *simTable) alter() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trouble.version++
}

// opened returns the table's version.
func (t *simTable) opened() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.trouble.version
}
