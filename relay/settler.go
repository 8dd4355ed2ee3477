package relay

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/retry"
)

// settler writes what became of rows. It keeps trying: rows that a broker has accepted are known as
// such in memory for as long as it takes, and are not published again.
type settler struct {
	database *database
	metrics  *metrics
	of       []*Destination // whose rows are being written
	limit    time.Duration  // of one statement
	most     int            // rows that a statement may write in this time, 0 for any number
	join     func([]Table) joint
	joints   map[uint64]joint // by the set of states
	state    int              // to which set of columns it writes
	aside    func()           // lets another settler go on with the rest; nil if there is none
}

// outcome is what is to be written at once. The maps are by the rows' identities.
type outcome struct {
	table    Table // where it is written
	accepted []*row
	refused  []refusal
	again    again           // why these are tried again, if they are
	written  map[string]bool // refusals that were written

	// What the database will not have, because a constraint, a trigger or row security is in the way.
	rejected   map[string]bool // of accepted
	unwritable map[string]bool // of refused
	why        error

	took    time.Duration   // to write everything, with the commits
	marked  int             // how many rows were to be marked with these
	careful bool            // wait for no row that somebody else keeps locked
	locked  map[string]bool // such rows, and those for which a trigger or a foreign key meets a lock
	waits   int             // statements that met such a lock
	slow    int             // the rows of a statement that took too long

	err error // ctx ended before everything was written, or nothing can be written as the table is now
}

// again says what kept rows from being written that are tried again.
type again uint8

const (
	fresh again = iota // nothing, they are tried for the first time
	againLocked
	againRejected
)

// write writes an outcome, and notes in it what could not be written.
func (s *settler) write(ctx context.Context, o *outcome) error {
	o.locked, o.written, o.rejected, o.unwritable = map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	s.of = o.destinations()
	if err := s.settle(ctx, o); err != nil {
		return err
	}
	if err := s.refuse(ctx, o); err != nil || len(o.locked) == 0 {
		return err
	}
	return ctx.Err() // nobody tries again
}

// destinations are those of the rows.
func (o *outcome) destinations() (all []*Destination) {
	note := func(r *row) {
		if n := len(all); n == 0 || all[n-1] != r.destination && !slices.Contains(all, r.destination) {
			all = append(all, r.destination)
		}
	}
	for _, r := range o.accepted {
		note(r)
	}
	for _, x := range o.refused {
		note(x.row)
	}
	return all
}

// settle marks rows and notes those of which the database will have none, and those that are locked.
func (s *settler) settle(ctx context.Context, o *outcome) error {
	identity := func(r *row) string { return r.Identity() }
	return divide(ctx, s, o, o.accepted, func(ctx context.Context, rows []*row) error {
		err := s.mark(ctx, o, rows)
		return o.ineffective(err, o.rejected)
	}, func(rows []*row, err error) bool {
		if outbox.Locked(err) {
			return lockedWithin(o, rows, identity, func(r *row) key { return r.key })
		}
		return reject(o, rows, identity, o.rejected, err)
	})
}

// mark marks rows, and notes those that somebody else keeps locked. It waits a moment for such rows, and not again
// while there are any.
func (s *settler) mark(ctx context.Context, o *outcome, rows []*row) error {
	read := make([]*outbox.Row, 0, len(rows))
	for _, r := range rows {
		read = append(read, r.Row)
	}
	if !o.careful {
		if err := o.table.Settle(ctx, read); !outbox.Locked(err) {
			return err
		}
		o.careful = true
	}
	locked, err := o.table.SettleFree(ctx, read)
	for _, identity := range locked {
		o.locked[identity] = true
	}
	return err
}

// refuse writes refusals and notes those that were written, those that cannot be, and those of locked rows.
func (s *settler) refuse(ctx context.Context, o *outcome) error {
	identity := func(x refusal) string { return x.row.Identity() }
	return divide(ctx, s, o, o.refused, func(ctx context.Context, refused []refusal) error {
		refusals := make([]outbox.Refusal, 0, len(refused))
		for _, x := range refused {
			refusals = append(refusals, outbox.Refusal{ID: x.row.Identity(), Attempt: x.row.Attempt, Error: x.err.Error(), Failed: x.failed})
		}
		written, locked, err := o.table.Refuse(ctx, refusals)
		for _, identity := range written {
			o.written[identity] = true
		}
		for _, identity := range locked {
			o.locked[identity] = true
		}
		return o.ineffective(err, o.unwritable)
	}, func(refused []refusal, err error) bool {
		if outbox.Locked(err) {
			return lockedWithin(o, refused, identity, func(x refusal) key { return x.row.key })
		}
		return reject(o, refused, identity, o.unwritable, err)
	})
}

// ineffective notes the rows that a statement was to write and did not, without an error of the server.
func (o *outcome) ineffective(err error, rejected map[string]bool) error {
	identities := outbox.WithoutEffect(err)
	if identities == nil {
		return err
	}
	o.why = err
	for _, identity := range identities {
		rejected[identity] = true
	}
	return nil
}

// reject notes the one that the database will not have; of several it reports false.
func reject[T any](o *outcome, items []T, identity func(T) string, rejected map[string]bool, err error) bool {
	if len(items) > 1 {
		return false
	}
	o.why, rejected[identity(items[0])] = err, true
	return true
}

// lockedWithin notes items for some of which a trigger or a foreign key meets a lock. It reports false if the halves are to be
// tried on their own. A key's rows are taken together: what they have in common besides the table is what is locked most often. After
// a number of statements the rest has to wait as it is; the order is another one each time, so that not the same ones wait always.
func lockedWithin[T any](o *outcome, items []T, identity func(T) string, keyOf func(T) key) bool {
	if o.waits++; o.waits == 1 {
		salt := rand.Uint64()
		slices.SortFunc(items, func(a, b T) int { return cmp.Compare(keyOf(a).hash()^salt, keyOf(b).hash()^salt) })
	}
	if o.waits <= mostLockWaits && slices.ContainsFunc(items, func(item T) bool { return keyOf(item) != keyOf(items[0]) }) {
		return false
	}
	for _, item := range items {
		o.locked[identity(item)] = true
	}
	return true
}

// mostLockWaits is how many statements of an outcome may wait for a lock that a trigger or a foreign key meets.
const mostLockWaits = 32

// divide writes items in statements that end in time. If some of the items are in the way of the others, they are looked for by
// halves; alone takes those that need no more dividing.
func divide[T any](ctx context.Context, s *settler, o *outcome, items []T, write func(context.Context, []T) error,
	alone func([]T, error) bool) error {
	for len(items) > 0 {
		n := len(items)
		if s.most > 0 {
			n = min(n, s.most)
		}
		part := items[:n]
		err := s.retry(ctx, n, func(ctx context.Context) error { return write(ctx, part) })
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return err
		case outbox.TimedOut(err) && n > 1:
			s.most, o.slow = n/2, n
			continue
		case !outbox.Rejected(err) && !outbox.LockedWithin(err) && !outbox.Cancelled(err):
			return err
		case alone(part, err):
		default:
			if err := divide(ctx, s, o, part[:n/2], write, alone); err != nil {
				return err
			}
			if err := divide(ctx, s, o, part[n/2:], write, alone); err != nil {
				return err
			}
		}
		items = items[n:]
	}
	return nil
}

// retry calls f, which writes n items, until it succeeds, or some of them are in the way, or it can never succeed as the table
// is now, or ctx ends.
func (s *settler) retry(ctx context.Context, n int, f func(context.Context) error) error {
	for failures := 1; ; failures++ {
		started := time.Now()
		limited, cancel := context.WithTimeout(ctx, s.limit)
		err := f(limited)
		cancel()
		took := time.Since(started)
		for _, d := range s.of {
			s.metrics.stage(d, stageSettle, took)
		}
		switch {
		case err == nil:
			s.pace(n, took)
			s.database.wrote(s.state, nil)
			return nil
		case outbox.Rejected(err), outbox.LockedWithin(err), outbox.Cancelled(err): // the database answers
			s.database.wrote(s.state, nil)
			return err
		}
		s.database.wrote(s.state, err)
		if outbox.Outdated(err) || outbox.TimedOut(err) && n > 1 {
			return err
		}
		if s.aside != nil {
			s.aside()
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retry.Pause(failures)):
		}
	}
}

// pace lets the size of statements follow the time that one of n rows took: well within the limit, since what is cut off was
// in vain, and growing slowly once it had to be made smaller.
func (s *settler) pace(n int, took time.Duration) {
	switch {
	case took > s.limit/2:
		s.most = max(1, n/2)
	case s.most > 0 && n >= s.most && took < s.limit/8:
		s.most += s.most/4 + 1
	}
}

// statementTimeout bounds one statement; a connection that takes longer is taken for dead.
const statementTimeout = 30 * time.Second
