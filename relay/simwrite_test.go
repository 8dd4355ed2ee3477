package relay

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/outbox"
)

func (t *simTable) Settle(ctx context.Context, rows []*outbox.Row) error {
	ids := idsOf(rows)
	if err := t.wait(ctx); err != nil {
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
	return t.mark(ids)
}

func (t *simTable) SettleFree(ctx context.Context, rows []*outbox.Row) (locked []string, err error) {
	ids := idsOf(rows)
	if err := t.wait(ctx); err != nil {
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
	return locked, t.mark(free)
}

// mark marks rows. The caller holds mu.
func (t *simTable) mark(ids []string) error {
	if slices.Contains(ids, t.guarded) {
		return errSimRejected
	}
	t.settles++
	t.end(t.start())
	for _, id := range ids {
		t.rows[id].relayed = true
		t.rows[id].relays++
		t.rows[id].marked = time.Now()
	}
	t.close()
	return t.lost()
}

func idsOf(rows []*outbox.Row) (ids []string) {
	for _, r := range rows {
		ids = append(ids, r.ID())
	}
	return ids
}

func (t *simTable) Refuse(ctx context.Context, refusals []outbox.Refusal) (written, locked []string, err error) {
	if err := t.wait(ctx); err != nil {
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
	for _, x := range refusals {
		r := t.rows[x.ID]
		if t.locked[x.ID] {
			locked = append(locked, x.ID)
			continue
		}
		if r.relayed || r.failed || r.attempt != x.Attempt {
			continue
		}
		if t.keepsAttempts {
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
	if err := t.lost(); err != nil {
		return nil, nil, err
	}
	return written, locked, nil
}

// lock lets an application keep those rows locked for which choose says so, and no others.
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

// guard lets nobody write a row any more.
func (t *simTable) guard(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.guarded = id
}

// wait lets the time of a write pass.
func (t *simTable) wait(ctx context.Context) error {
	time.Sleep(t.took)
	t.mu.Lock()
	held := t.held
	t.mu.Unlock()
	if held == nil {
		return nil
	}
	select {
	case <-held:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hold lets writes wait until release is called.
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

// lost is the answer to a write that succeeded. The caller holds mu.
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
