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
	batch    int
	database *database
	metrics  *metrics
}

// outcome is what is to be written at once.
type outcome struct {
	accepted []*row
	refused  []refusal
	written  map[string]bool // ids of the refusals that were written
	err      error           // ctx ended before everything was written
}

// run writes outcomes until there are no more.
func (s *settler) run(ctx context.Context, outcomes <-chan outcome, done chan<- outcome) {
	for o := range outcomes {
		o.err = s.write(ctx, &o)
		done <- o
	}
}

func (s *settler) write(ctx context.Context, o *outcome) error {
	ids := make([]string, 0, len(o.accepted))
	for _, r := range o.accepted {
		ids = append(ids, r.ID())
	}
	if len(ids) > 0 {
		if err := s.retry(ctx, func(ctx context.Context) error { return s.table.Settle(ctx, ids) }); err != nil {
			return err
		}
	}
	refusals := make([]outbox.Refusal, 0, len(o.refused))
	for _, x := range o.refused {
		refusals = append(refusals, outbox.Refusal{ID: x.row.ID(), Attempt: x.row.Attempt, Error: x.err.Error(), Failed: x.failed})
	}
	o.written = make(map[string]bool, len(refusals))
	if len(refusals) == 0 {
		return nil
	}
	return s.retry(ctx, func(ctx context.Context) error {
		written, err := s.table.Refuse(ctx, refusals)
		for _, id := range written {
			o.written[id] = true
		}
		return err
	})
}

// retry calls f until it succeeds or ctx ends.
func (s *settler) retry(ctx context.Context, f func(context.Context) error) error {
	for n := 1; ; n++ {
		started := time.Now()
		limited, cancel := context.WithTimeout(ctx, statementTimeout)
		err := f(limited)
		cancel()
		s.metrics.stage(stageSettle, time.Since(started))
		s.database.wrote(err)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause(n)):
		}
	}
}

// statementTimeout bounds one statement; a connection that takes longer is taken for dead.
const statementTimeout = 30 * time.Second
