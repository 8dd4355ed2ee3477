package relay

import (
	"context"
	"time"

	"github.com/outbox-relay/outbox-relay/outbox"
)

// settler writes what became of rows. It keeps trying: rows that a broker has accepted are known as
// such in memory for as long as it takes, and are not published again.
type settler struct {
	table    Table
	database *database
	metrics  *metrics
}

// settlers is how many write at a time. While one statement waits for the disk, the other has the processor.
const settlers = 2

// outcome is what is to be written at once.
type outcome struct {
	accepted []*row
	refused  []refusal
	written  map[string]bool // identities of the refusals that were written

	// What the database will not have, because a constraint or a trigger is in the way.
	rejected   []*row          // of accepted
	unwritable map[string]bool // identities of refusals
	why        error

	careful bool            // wait for no row that somebody else keeps locked
	locked  map[string]bool // identities of such rows

	err error // ctx ended before everything was written
}

// run writes outcomes until there are no more.
func (s *settler) run(ctx context.Context, outcomes <-chan outcome, done chan<- outcome) {
	for o := range outcomes {
		o.err = s.write(ctx, &o)
		done <- o
	}
}

func (s *settler) write(ctx context.Context, o *outcome) error {
	o.locked = map[string]bool{}
	if err := s.settle(ctx, o, o.accepted); err != nil {
		return err
	}
	o.written, o.unwritable = make(map[string]bool, len(o.refused)), map[string]bool{}
	if err := s.refuse(ctx, o, o.refused); err != nil || len(o.locked) == 0 {
		return err
	}
	return ctx.Err() // nobody tries again
}

// settle marks rows and notes those of which the database will have none, which it looks for by halves.
func (s *settler) settle(ctx context.Context, o *outcome, rows []*row) error {
	if len(rows) == 0 {
		return nil
	}
	read := make([]*outbox.Row, 0, len(rows))
	for _, r := range rows {
		read = append(read, r.Row)
	}
	err := s.retry(ctx, func(ctx context.Context) error { return s.mark(ctx, o, read) })
	switch {
	case !outbox.Rejected(err):
		return err
	case len(rows) == 1:
		o.rejected, o.why = append(o.rejected, rows[0]), err
		return nil
	}
	if err := s.settle(ctx, o, rows[:len(rows)/2]); err != nil {
		return err
	}
	return s.settle(ctx, o, rows[len(rows)/2:])
}

// mark marks rows, and notes those that somebody else keeps locked. It waits a moment for such rows, and not again
// while there are any.
func (s *settler) mark(ctx context.Context, o *outcome, rows []*outbox.Row) error {
	if !o.careful {
		if err := s.table.Settle(ctx, rows); !outbox.Locked(err) {
			return err
		}
		o.careful = true
	}
	locked, err := s.table.SettleFree(ctx, rows)
	for _, id := range locked {
		o.locked[id] = true
	}
	return err
}

// refuse writes refusals and notes which were written, and of those that cannot be.
func (s *settler) refuse(ctx context.Context, o *outcome, refused []refusal) error {
	if len(refused) == 0 {
		return nil
	}
	refusals := make([]outbox.Refusal, 0, len(refused))
	for _, x := range refused {
		refusals = append(refusals, outbox.Refusal{ID: x.row.Identity(), Attempt: x.row.Attempt, Error: x.err.Error(), Failed: x.failed})
	}
	err := s.retry(ctx, func(ctx context.Context) error {
		written, locked, err := s.table.Refuse(ctx, refusals)
		for _, id := range written {
			o.written[id] = true
		}
		for _, id := range locked {
			o.locked[id] = true
		}
		return err
	})
	switch {
	case !outbox.Rejected(err):
		return err
	case len(refused) == 1:
		o.unwritable[refusals[0].ID], o.why = true, err
		return nil
	}
	if err := s.refuse(ctx, o, refused[:len(refused)/2]); err != nil {
		return err
	}
	return s.refuse(ctx, o, refused[len(refused)/2:])
}

// retry calls f until it succeeds, or one of its rows is in the way, or ctx ends.
func (s *settler) retry(ctx context.Context, f func(context.Context) error) error {
	for n := 1; ; n++ {
		started := time.Now()
		limited, cancel := context.WithTimeout(ctx, statementTimeout)
		err := f(limited)
		cancel()
		s.metrics.stage(stageSettle, time.Since(started))
		if err == nil || outbox.Rejected(err) {
			s.database.wrote(nil)
			return err
		}
		s.database.wrote(err)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause(n)):
		}
	}
}

// statementTimeout bounds one statement; a connection that takes longer is taken for dead.
const statementTimeout = 30 * time.Second
