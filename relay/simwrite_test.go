package relay

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

func (t *simTable) Settle(ctx context.Context, rows []*outbox.Row, free bool) (map[string]error, error) {
	unwritten, ids := map[string]error{}, []string{}
	trouble, err := t.wait(ctx)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.down {
		return nil, errSimDown
	}
	for _, id := range idsOf(rows) {
		if t.locked[id] {
			unwritten[id] = outbox.ErrLocked
		} else {
			ids = append(ids, id)
		}
	}
	if !free && len(unwritten) > 0 {
		t.mu.Unlock()
		time.Sleep(simLockPatience)
		t.mu.Lock()
		return nil, errSimLocked
	}
	inert, err := t.mark(ids)
	for _, id := range inert {
		unwritten[id] = errSimInert
	}
	return unwritten, t.answer(ctx, trouble, err)
}

// Rehearse refuses the rows that mark would not mark, and the locked ones.
func (t *simTable) Rehearse(_ context.Context, rows []*outbox.Row) (refused map[string]error, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.down {
		return nil, errSimDown
	}
	refused = map[string]error{}
	for _, id := range idsOf(rows) {
		if id == t.guarded || t.inert[id] {
			refused[id] = errSimRejected
		} else if t.locked[id] {
			refused[id] = errSimLocked
		}
	}
	return refused, nil
}

// mark marks rows, and returns those on which it has no effect. The caller holds mu.
func (t *simTable) mark(ids []string) (inert []string, err error) {
	if slices.Contains(ids, t.guarded) {
		return nil, errSimRejected
	}
	t.settles++
	x := t.start()
	t.end(x)
	ids, inert = t.effective(ids)
	for _, id := range ids {
		*t.rows[id].writer = x
		t.rows[id].relayed = true
		t.rows[id].relays++
		t.rows[id].marked = time.Now()
	}
	t.close()
	return inert, t.lost()
}

// effective separates the rows that can be written from those on which a write would have no effect. The caller holds
// mu.
func (t *simTable) effective(ids []string) (effective, inert []string) {
	for _, id := range ids {
		if r := t.rows[id]; t.inert[id] && !r.relayed && !r.failed {
			inert = append(inert, id)
		} else {
			effective = append(effective, id)
		}
	}
	return effective, inert
}

// errSimInert is why a write has no effect, without an error of the server.
var errSimInert = errors.New("no effect")

// deaden makes writes have no effect on the open rows that choose selects, and on no others.
func (t *simTable) deaden(choose func(id string) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inert = map[string]bool{}
	for _, r := range t.open {
		if choose(r.id) {
			t.inert[r.id] = true
		}
	}
}

func idsOf(rows []*outbox.Row) (ids []string) {
	for _, r := range rows {
		ids = append(ids, r.ID())
	}
	return ids
}

func (t *simTable) Refuse(ctx context.Context, refusals []outbox.Refusal) (map[string]error, error) {
	trouble, err := t.wait(ctx)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.down {
		return nil, errSimDown
	}
	for _, x := range refusals {
		if x.ID() == t.guarded {
			return nil, errSimRejected
		}
	}
	unwritten := map[string]error{}
	for _, x := range refusals {
		switch r := t.rows[x.ID()]; {
		case t.locked[x.ID()]:
			unwritten[x.ID()] = outbox.ErrLocked
		case r.relayed || r.failed || r.attempt != x.Attempt:
			unwritten[x.ID()] = outbox.ErrRewritten
		case t.inert[x.ID()]:
			unwritten[x.ID()] = errSimInert
		default:
			t.refuse(r, x)
		}
	}
	t.close()
	if err := t.answer(ctx, trouble, t.lost()); err != nil {
		return nil, err
	}
	for id, why := range unwritten {
		if errors.Is(why, errSimInert) {
			t.rows[id].vain++
		}
	}
	return unwritten, nil
}

// refuse writes a refusal. The caller holds mu.
func (t *simTable) refuse(r *simRow, x outbox.Refusal) {
	if t.keepsAttempts && !x.Untried {
		r.attempt = x.Attempt + 1
	}
	r.lastError, r.updated, r.failed = x.Error, time.Now(), x.Failed
	t.written(r)
	if x.Failed {
		r.failures = append(r.failures, span{from: time.Now()})
	}
}

// lock makes an application keep the rows locked that choose selects, and no others.
func (t *simTable) lock(choose func(id string) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.locked = map[string]bool{}
	for _, r := range t.open {
		if choose(r.id) {
			t.locked[r.id] = true
		}
	}
}

const simLockPatience = 500 * time.Millisecond

// guard makes all writes of a row fail from now on.
func (t *simTable) guard(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.guarded = id
}

// wait lets the time of a write pass. If the write takes longer than it may, a nil error means that it was done.
func (t *simTable) wait(ctx context.Context) (overdue, error) {
	t.mu.Lock()
	took := t.took
	t.mu.Unlock()
	time.Sleep(took)
	t.mu.Lock()
	held, trouble := t.held, take(&t.trouble.writes)
	t.mu.Unlock()
	if trouble == cancelled || trouble == unheard {
		return trouble, trouble.until(ctx)
	}
	if held == nil {
		return trouble, nil
	}
	select {
	case <-held:
		return trouble, nil
	case <-ctx.Done():
		return trouble, ctx.Err()
	}
}

// answer returns the answer to a write, if the caller receives one. The caller holds mu.
func (t *simTable) answer(ctx context.Context, trouble overdue, err error) error {
	if trouble != inTime {
		t.mu.Unlock()
		defer t.mu.Lock()
		return trouble.until(ctx)
	}
	return err
}

// hold makes writes wait until release is called.
func (t *simTable) hold() (release func()) {
	held := make(chan struct{})
	t.mu.Lock()
	t.held = held
	t.mu.Unlock()
	return sync.OnceFunc(func() {
		t.mu.Lock()
		t.held = nil
		t.mu.Unlock()
		close(held)
	})
}

// lost returns the answer to a write that succeeded. The caller holds mu.
func (t *simTable) lost() error {
	if t.lossy > 0 {
		t.lossy--
		return errSimDown
	}
	return nil
}

// settleCount returns how many calls marked something.
func (t *simTable) settleCount() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.settles
}
