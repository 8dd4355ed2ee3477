package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/owner"
)

// byHand is an engine of which a test makes each read, publish and write itself.
type byHand struct {
	*sim
	*Engine
	t *testing.T
}

// newByHand makes an engine that owns everything.
func newByHand(t *testing.T, change func(*sim)) *byHand {
	s := aimed(change)
	s.replicas[0].kill()
	h := &byHand{s, New(s.setup()), t}
	h.Own(s.replicas[0].owned, owner.Set{}, s.now())
	return h
}

// reads makes the reads that are due of one kind, and leaves the others alone.
func (h *byHand) reads(kind Kind) {
	h.t.Helper()
	h.run(h.at + 100*ms)
	for _, other := range []Kind{Tail, Due, Sweep, Failed, Keys} {
		h.Engine.reads.rests[other] = h.now()
		if other != kind {
			h.Engine.reads.rests[other] = h.now().Add(ms)
		}
	}
	r := h.Next(h.now())
	if r == nil || r.Kind != kind {
		h.t.Fatalf("no read of kind %d: %+v", kind, r)
	}
	r.Do(h.t.Context(), StatementTimeout, h.table)
	h.Taken(r, time.Time{}, h.now())
}

// relays publishes and marks what is queued, and returns the ids.
func (h *byHand) relays() (ids []string) {
	for lane := range 2 + TryLanes {
		batch := h.Batch(lane >= 2, h.now())
		if len(batch) == 0 {
			continue
		}
		for _, r := range batch {
			ids = append(ids, r.ID())
		}
		h.Answers(batch, make([]error, len(batch)), h.now())
	}
	h.Writes(h.now(), func(o Outcome) {
		x := &simTx{}
		h.table.number(x)
		h.table.end(x, true)
		h.table.write(&o, x.xid, func(*simRow) bool { return false })
		h.Written(o, h.now())
	})
	return ids
}

// A key with many rows is read on, ahead of the tail. A page of the tail is cut at a row in doubt, and behind that it
// brings a row of the key that was committed late. The key is not read on then as if nobody had read that row.
func TestLateRowBehindTheCutOfAPage(t *testing.T) {
	t.Parallel()
	h := newByHand(t, func(s *sim) { s.exact, s.limits.Rows, s.limits.Batch = true, 40, 10 })
	x, order := &simTx{}, int64(0)
	insert := func(in *simTx, key string) *simRow {
		order++
		return h.insertIn(in, key, func(r *simRow) { r.order = order })
	}
	committed := func(key string, n int) {
		for range n {
			one := &simTx{}
			insert(one, key)
			h.table.end(one, true)
		}
	}
	committed("k", 11)
	for n := range 9 {
		committed(fmt.Sprint("other", n), 1)
	}
	insert(x, "doubt")
	late := insert(x, "k")
	committed("k", 30)

	h.reads(Tail)
	h.reads(Tail) // brings the eleventh row of the key, which is read by itself from there on
	h.relays()
	h.reads(Keys)
	h.relays()
	h.table.end(x, true)
	h.reads(Tail) // the page is cut at the first row of the transaction
	h.reads(Keys)
	if ids := h.relays(); !slices.Contains(ids, late.id) {
		t.Errorf("before %s, which was read first, goes %q", late.id, ids)
	}
}
