package relay

import "testing"

// A shard is released when no destination has any of its rows in flight. Destinations that are not kept waiting continue to
// feed it until the slow one has let go. If the shard then stays after all, letting go of it before does not count the next
// time.
func TestShardIsReleasedByAllDestinations(t *testing.T) {
	o, heir := newSimOwner(simShards), newSimOwner(0)
	es := &engines{ownership: o, changed: make(chan struct{})}
	fast, slow := &engine{engines: es}, &engine{engines: es}
	es.all = []*engine{fast, slow}
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
