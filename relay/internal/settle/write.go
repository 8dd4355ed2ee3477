package settle

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
	"github.com/outbox-relay/outbox-relay/relay/internal/retry"
)

// write writes an order, and notes in it what could not be written. It keeps trying: rows that a broker has accepted
// are remembered for as long as it takes, and are not published again.
func (s *Settlement) write(ctx context.Context, o *order) error {
	o.Effects = map[string]engine.Effect{}
	if err := s.settle(ctx, o); err != nil {
		return err
	}
	if err := s.refuse(ctx, o); err != nil {
		return err
	}
	for _, effect := range o.Effects {
		if effect == engine.Unfree {
			return ctx.Err() // there is no other try
		}
	}
	return nil
}

// settle marks rows. It notes the rows that the database does not mark, and those that are locked.
func (s *Settlement) settle(ctx context.Context, o *order) error {
	row := func(r *engine.Row) *engine.Row { return r }
	return divide(ctx, s, o, o.Accepted, row, func(ctx context.Context, rows []*engine.Row) error {
		return o.ineffective(s.mark(ctx, o, rows))
	})
}

// mark marks rows, and notes the rows that another session keeps locked. It waits a moment for such rows, and then does
// not wait again while there are any.
func (s *Settlement) mark(ctx context.Context, o *order, rows []*engine.Row) error {
	table := s.states[o.states[0]].table
	if !o.Careful {
		if err := table.Settle(ctx, read(rows)); !outbox.Locked(err) {
			return err
		}
		o.Careful = true
	}
	locked, err := table.SettleFree(ctx, read(rows))
	for _, identity := range locked {
		o.Effects[identity] = engine.Unfree
	}
	return err
}

func read(rows []*engine.Row) []*outbox.Row {
	all := make([]*outbox.Row, 0, len(rows))
	for _, r := range rows {
		all = append(all, r.Row)
	}
	return all
}

// refuse writes refusals. It notes those that were written, those that cannot be written, and those of locked rows.
func (s *Settlement) refuse(ctx context.Context, o *order) error {
	row := func(x engine.Refusal) *engine.Row { return x.Row }
	return divide(ctx, s, o, o.Refused, row, func(ctx context.Context, refused []engine.Refusal) error {
		refusals := make([]outbox.Refusal, 0, len(refused))
		for _, x := range refused {
			refusals = append(refusals, outbox.Refusal{
				ID: x.Row.Identity(), Attempt: x.Row.Attempt, Error: x.Err.Error(), Failed: x.Failed, Of: x.Row.Row,
				Untried: errors.Is(x.Err, outbox.ErrExpired),
			})
		}
		done, locked, err := s.states[o.states[0]].table.Refuse(ctx, refusals)
		for _, identity := range done {
			o.Effects[identity] = engine.Written
		}
		for _, identity := range locked {
			o.Effects[identity] = engine.Unfree
		}
		return o.ineffective(err)
	})
}

// ineffective notes the rows that a statement was to write and did not write, without an error of the server.
func (o *order) ineffective(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var left error
		for _, one := range joined.Unwrap() {
			left = errors.Join(left, o.ineffective(one))
		}
		return left
	}
	if changed, ok := errors.AsType[*outbox.RewrittenError](err); ok {
		for _, identity := range changed.Identities {
			o.Effects[identity] = engine.Rewritten
		}
		return nil
	}
	identities := outbox.WithoutEffect(err)
	if identities == nil {
		return err
	}
	o.Why = err
	for _, identity := range identities {
		o.Effects[identity] = engine.Unwritable
	}
	return nil
}

// undivided notes items that need no more dividing after an error: a single item that the database does not accept, or
// items that are locked. It reports false if the halves are to be tried separately.
func undivided[T any](o *order, items []T, row func(T) *engine.Row, err error) bool {
	if outbox.Locked(err) {
		return lockedWithin(o, items, row)
	}
	if len(items) > 1 {
		return false
	}
	o.Why, o.Effects[row(items[0]).Identity()] = err, engine.Unwritable
	return true
}

// lockedWithin notes items for some of which a trigger or a foreign key meets a lock. It reports false if the halves
// are to be tried separately. Items of one key stay together, since what rows have in common besides the table is what
// is locked most often. After a number of statements the rest has to wait as it is. The order differs each time, so
// that different items wait.
func lockedWithin[T any](o *order, items []T, row func(T) *engine.Row) bool {
	keyOf := func(item T) uint64 { return row(item).Hash }
	if o.waits++; o.waits == 1 {
		salt := rand.Uint64()
		slices.SortFunc(items, func(a, b T) int { return cmp.Compare(keyOf(a)^salt, keyOf(b)^salt) })
	}
	other := func(item T) bool { return keyOf(item) != keyOf(items[0]) }
	if o.waits <= mostLockWaits && slices.ContainsFunc(items, other) {
		return false
	}
	for _, item := range items {
		o.Effects[row(item).Identity()] = engine.Unfree
	}
	return true
}

// mostLockWaits is the number of statements of an outcome that may wait for a lock that a trigger or a foreign key
// meets.
const mostLockWaits = 32

// divide writes items in statements that end in time. If some items keep the others from being written, it finds them
// by halving. row returns the row of an item.
func divide[T any](ctx context.Context, s *Settlement, o *order, items []T, row func(T) *engine.Row,
	write func(context.Context, []T) error,
) error {
	for len(items) > 0 {
		n := s.size(o, len(items))
		part := items[:n]
		err := s.retry(ctx, o, n, func(ctx context.Context) error { return write(ctx, part) })
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return err
		case outbox.TimedOut(err) && n > 1:
			s.pace(o, n, 2*goodTime)
			o.Slow = n
			continue
		case !outbox.Rejected(err) && !outbox.LockedWithin(err) && !outbox.Cancelled(err):
			return err
		case undivided(o, part, row, err):
		default:
			if err := divide(ctx, s, o, part[:n/2], row, write); err != nil {
				return err
			}
			if err := divide(ctx, s, o, part[n/2:], row, write); err != nil {
				return err
			}
		}
		items = items[n:]
	}
	return nil
}

// retry calls f, which writes n items of an order, until it succeeds, or some of the items keep the others from being
// written, or it can never succeed with the table as it is, or ctx ends.
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
			s.wrote(o.states[0], nil)
			return nil
		case outbox.Rejected(err), outbox.LockedWithin(err), outbox.Cancelled(err): // the database answers
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
// instance. After it had to be reduced, the size grows slowly.
func (s *Settlement) pace(o *order, n int, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := &s.states[o.states[0]].most
	good := min(goodTime, s.limit/2)
	switch {
	case took > good:
		*most = max(1, int(int64(n)*int64(good)/int64(took)))
	case *most > 0 && n >= *most && took < good/4:
		*most += *most/4 + 1
	}
}

// size returns how many of n rows of an order a statement may write.
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
