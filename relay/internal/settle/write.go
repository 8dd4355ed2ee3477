package settle

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
	"github.com/outbox-relay/outbox-relay/relay/internal/retry"
)

// write writes an order, and notes in it what could not be written. It keeps trying: rows that a broker has accepted
// are remembered for as long as it takes, and are not published again (invariant 4 of package internal). What another
// session keeps locked is no reason to go on: the engine tries it again, and a stop waits for it there. At the end of
// ctx there is no such try, so the error says so.
func (s *Settlement) write(ctx context.Context, o *order) error {
	o.Unwritten = map[string]error{}
	var accepted, refused []*engine.Row
	for _, r := range o.Rows {
		if r.Refused == nil {
			accepted = append(accepted, r)
		} else {
			refused = append(refused, r)
		}
	}
	if err := s.divide(ctx, o, accepted, s.mark); err != nil {
		return err
	}
	if err := s.divide(ctx, o, refused, s.refuse); err != nil {
		return err
	}
	for _, why := range o.Unwritten {
		if errors.Is(why, outbox.ErrLocked) {
			return ctx.Err() // there is no other try
		}
	}
	return nil
}

// mark marks rows. It waits a moment for rows that another session keeps locked, and then does not wait again while
// there are any. Most locks are released within the moment, and marking only the free rows costs the database more.
func (s *Settlement) mark(ctx context.Context, o *order, rows []*engine.Row) (unwritten map[string]error, err error) {
	table := s.table(o)
	if !o.Careful {
		if unwritten, err = table.Settle(ctx, read(rows), false); !outbox.Locked(err) {
			return unwritten, err
		}
		o.Careful = true
	}
	return table.Settle(ctx, read(rows), true)
}

// read returns the rows as they were read.
func read(rows []*engine.Row) []*outbox.Row {
	all := make([]*outbox.Row, 0, len(rows))
	for _, r := range rows {
		all = append(all, r.Row)
	}
	return all
}

// refuse writes refusals. A refusal is written only while the row is as it was read.
func (s *Settlement) refuse(ctx context.Context, o *order, rows []*engine.Row) (unwritten map[string]error, err error) {
	refusals := make([]outbox.Refusal, 0, len(rows))
	for _, r := range rows {
		refusals = append(refusals, outbox.Refusal{
			Row: r.Row, Error: r.Refused.Error(), Failed: r.Failed, Untried: errors.Is(r.Refused, outbox.ErrExpired),
		})
	}
	return s.table(o).Refuse(ctx, refusals)
}

// undivided notes rows that need no more dividing after an error: a single row that the database does not accept, or
// the rest where a trigger or a foreign key has met locks often enough. It reports false if the halves are to be tried
// separately. A single row for which the server has ended the statement counts as one that the database does not
// accept, so that its order ends. Otherwise such a row would be tried until the end of the process, with all that waits
// in its order. Rows of one key stay together where there are locks, since what rows have in common besides the table
// is what is locked most often. The order differs each time, so that different rows wait.
func (o *order) undivided(rows []*engine.Row, err error) bool {
	if outbox.Locked(err) {
		if err = outbox.ErrLocked; o.waits == 0 {
			salt := rand.Uint64()
			slices.SortFunc(rows, func(a, b *engine.Row) int { return cmp.Compare(a.Hash^salt, b.Hash^salt) })
		}
		o.waits++
	}
	if len(rows) > 1 && o.waits <= mostLockWaits {
		return false
	}
	for _, r := range rows {
		o.Unwritten[r.Identity()] = err
	}
	return true
}

// mostLockWaits is the number of statements of an outcome that may wait for a lock that a trigger or a foreign key
// meets. A mark waits for a twentieth of a second there, so that all of them take hardly longer than other orders wait.
const mostLockWaits = 32

// divide writes rows in statements that end in time. If some rows keep the others from being written, it finds them by
// halving: one bad row of a thousand costs some twenty statements, and the others are written with them. From then on
// the engine tries the bad ones apart from the others, so that this is paid once, and not with each batch.
//
// An error that says nothing about single rows, such as a lost connection, is for retry, which repeats the same rows.
// What is left is a statement that took too long, rows that the database rejects, and locks met by a trigger or a
// foreign key.
func (s *Settlement) divide(ctx context.Context, o *order, rows []*engine.Row,
	write func(context.Context, *order, []*engine.Row) (unwritten map[string]error, err error),
) error {
	for len(rows) > 0 {
		n := s.size(o, len(rows))
		part := rows[:n]
		err := s.retry(ctx, o, n, func(ctx context.Context) error {
			unwritten, err := write(ctx, o, part)
			maps.Copy(o.Unwritten, unwritten)
			return err
		})
		switch {
		case err == nil:
		case ctx.Err() != nil, o.joint():
			return err
		// How long it would have taken is not known: the next one has half as many rows.
		case outbox.TimedOut(err) && n > 1:
			s.pace(o, n, 2*goodTime)
			continue
		case !outbox.Rejected(err) && !outbox.LockedWithin(err) && !outbox.Cancelled(err):
			return err
		case o.undivided(part, err):
		default:
			if err := s.divide(ctx, o, part[:n/2], write); err != nil {
				return err
			}
			if err := s.divide(ctx, o, part[n/2:], write); err != nil {
				return err
			}
		}
		rows = rows[n:]
	}
	return nil
}

// retry calls f, which writes n items of an order, until it succeeds, or some of the items keep the others from being
// written, or it can never succeed with the table as it is, or ctx ends. After the first failure it lets other orders
// pass at once: they may be for columns that the database does take. Pauses between tries grow to half a second. Rows
// that a broker has accepted have nowhere else to go: until they are marked, only this process knows that they were
// published.
func (s *Settlement) retry(ctx context.Context, o *order, n int, f func(context.Context) error) error {
	for failures := 1; ; failures++ {
		started := time.Now()
		limited, cancel := context.WithTimeout(ctx, s.limit)
		err := f(limited)
		cancel()
		took := time.Since(started)
		o.stage(took)
		switch {
		case err == nil:
			s.pace(o, n, took)
			for _, state := range o.states {
				s.wrote(state, nil)
			}
			return nil
		case o.joint(): // each is marked by itself, and repeated there
			return err
		// The database answers, so this is not counted as an outage of it.
		case outbox.Rejected(err), outbox.LockedWithin(err), outbox.Cancelled(err):
			s.wrote(o.states[0], nil)
			return err
		}
		s.wrote(o.states[0], err)
		if outbox.Outdated(err) || outbox.TimedOut(err) && n > 1 {
			return err
		}
		s.release(o)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retry.Pause(failures)):
		}
	}
}

// goodTime is how long a statement may take. What commits within a second keeps neither rows of other keys waiting, nor
// a stop, nor the application, which waits for the rows that the statement has locked.
const goodTime = time.Second

// pace makes the size of statements follow the time that a row has taken in the last one, a trigger's time for
// instance. After it had to be reduced, the size grows slowly. With a trigger of 20 ms a row, a statement for 1,500
// rows used to run into its time limit, and nothing was marked for 42 seconds.
func (s *Settlement) pace(o *order, n int, took time.Duration) {
	if o.joint() { // which of the sets of columns makes it slow is not known
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	most := &s.states[o.states[0]].most
	good := min(goodTime, s.limit/2)
	switch {
	case took > good:
		*most = max(1, int(int64(n)*int64(good)/int64(took)))
	// A statement that was not full says nothing about larger ones.
	case *most > 0 && n >= *most && took < good/4:
		*most += *most/4 + 1
	}
}

// size returns how many of n rows of an order a statement may write: the least of what its sets of columns allow. A
// slow trigger on one destination's columns makes the joint statements small as well.
func (s *Settlement) size(o *order, n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, state := range o.states {
		if most := s.states[state].most; most > 0 {
			n = min(n, most)
		}
	}
	return n
}
