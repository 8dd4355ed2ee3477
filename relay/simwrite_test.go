package relay

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

func (t *simTable) Settle(ctx context.Context, rows []*outbox.Row) error {
	ids := idsOf(rows)
	trouble, err := t.wait(ctx)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.down {
		return errSimDown
	}
	if slices.ContainsFunc(ids, func(id string) bool { return t.locked[id] }) {
		t.mu.Unlock()
		time.Sleep(simLockPatience)
		t.mu.Lock()
		return errSimLocked
	}
	return t.answer(ctx, trouble, t.mark(ids))
}

func (t *simTable) SettleFree(ctx context.Context, rows []*outbox.Row) (locked []string, err error) {
	ids := idsOf(rows)
	trouble, err := t.wait(ctx)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.down {
		return nil, errSimDown
	}
	var free []string
	for _, id := range ids {
		if t.locked[id] {
			locked = append(locked, id)
		} else {
			free = append(free, id)
		}
	}
	return locked, t.answer(ctx, trouble, t.mark(free))
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

// mark marks rows. The caller holds mu.
func (t *simTable) mark(ids []string) error {
	if slices.Contains(ids, t.guarded) {
		return errSimRejected
	}
	t.settles++
	x := t.start()
	t.end(x)
	ids, inert := t.effective(ids)
	for _, id := range ids {
		*t.rows[id].writer = x
		t.rows[id].relayed = true
		t.rows[id].relays++
		t.rows[id].marked = time.Now()
	}
	t.close()
	return cmp.Or(t.lost(), noEffect(inert))
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

func noEffect(ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	return &outbox.NoEffectError{Identities: ids}
}

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

func (t *simTable) Refuse(ctx context.Context, refusals []outbox.Refusal) (written, locked []string, err error) {
	trouble, err := t.wait(ctx)
	if err != nil {
		return nil, nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.down {
		return nil, nil, errSimDown
	}
	for _, x := range refusals {
		if x.ID == t.guarded {
			return nil, nil, errSimRejected
		}
	}
	var inert []string
	for _, x := range refusals {
		r := t.rows[x.ID]
		if t.locked[x.ID] {
			locked = append(locked, x.ID)
			continue
		}
		if r.relayed || r.failed || r.attempt != x.Attempt {
			continue
		}
		if t.inert[x.ID] {
			inert = append(inert, x.ID)
			continue
		}
		if t.keepsAttempts && !x.Untried {
			r.attempt = x.Attempt + 1
		}
		r.lastError, r.updated, r.failed = x.Error, time.Now(), x.Failed
		t.written(r)
		if x.Failed {
			r.failures = append(r.failures, span{from: time.Now()})
		}
		written = append(written, x.ID)
	}
	t.close()
	if err := t.answer(ctx, trouble, t.lost()); err != nil {
		return nil, nil, err
	}
	for _, id := range inert {
		t.rows[id].vain++
	}
	return written, locked, noEffect(inert)
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
