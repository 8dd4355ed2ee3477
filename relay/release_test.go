package relay

import (
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/owner"
)

// A shard is released when no destination has any of its rows in flight. Destinations that are not kept waiting
// continue to feed it until the slow one has let go. If the shard then stays after all, letting go of it before does
// not count the next time.
func TestShardIsReleasedByAllDestinations(t *testing.T) {
	o, heir := newSimOwner(simShards), newSimOwner(0)
	es := &engines{changed: make(chan struct{})}
	fast, slow := &loop{engines: es, ownership: o}, &loop{engines: es, ownership: o}
	apart := &loop{engines: es, ownership: heir}
	es.all = []*loop{fast, slow, apart}
	apart.wait(true) // it has shards of its own, and nothing waits for it
	const shard = 3
	leave := func() { o.give(shard, heir) }
	stay := func() {
		o.update(func() {
			o.state.Leaving.Remove(shard)
			o.state.Owned.Add(shard)
		})
	}
	given := func() bool { state, _ := heir.State(); return state.Owned.Has(shard) }

	leave()
	slow.wait(true)
	if state, _ := fast.ours(); !state.Owned.Has(shard) || state.Leaving.Has(shard) {
		t.Error("a destination lets go before the slow one has")
	}
	state, _ := slow.ours()
	if state.Owned.Has(shard) || !state.Leaving.Has(shard) {
		t.Error("the slow destination does not let go")
	}
	slow.leave(state.Leaving)
	if given() {
		t.Error("the shard is released while a destination has it")
	}
	if state, _ = fast.ours(); state.Owned.Has(shard) || !state.Leaving.Has(shard) {
		t.Error("the other does not let go when the slow one has")
	}

	stay()
	fast.ours()
	leave()
	fast.leave(state.Leaving)
	if given() {
		t.Error("the shard is released although the slow destination has it again")
	}
	slow.leave(state.Leaving)
	if !given() {
		t.Error("the shard is not released")
	}
}

// watchedOwner notes whether an engine could learn of its shards while others are reported as left.
type watchedOwner struct {
	*simOwner
	engines *engines
	learns  bool
}

func (o *watchedOwner) Left(set owner.Set) {
	if o.engines.mu.TryLock() {
		o.engines.mu.Unlock()
		o.learns = true
	}
	o.simOwner.Left(set)
}

// That all engines have left a shard is reported before any of them can learn that it has the shard again. Otherwise a
// report that is late could release the shard after it was taken again.
func TestShardIsReportedAsLeftBeforeItIsTakenAgain(t *testing.T) {
	const shard = 3
	es := &engines{changed: make(chan struct{})}
	o := &watchedOwner{simOwner: newSimOwner(simShards), engines: es}
	e := &loop{engines: es, ownership: o}
	es.all = []*loop{e}
	heir := newSimOwner(0)
	o.give(shard, heir)
	state, _ := e.ours()
	e.leave(state.Leaving)
	if state, _ = heir.State(); !state.Owned.Has(shard) || o.learns {
		t.Errorf("released: %v; engines could learn of it meanwhile: %v", state.Owned.Has(shard), o.learns)
	}
}
