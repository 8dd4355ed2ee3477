package relay

import (
	"hash/fnv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/owner"
)

const simShards = 5

func simShard(key, id string) int {
	if key == "" {
		key = id
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	return int(h.Sum32() % simShards)
}

// simOwner is one replica's view of the ownership. Tests move shards between replicas with give.
type simOwner struct {
	mu      sync.Mutex
	state   owner.State
	changed chan struct{}
	trusted func() time.Time
	heirs   map[int]*simOwner
}

// shardsBelow returns the shards 0 to n-1.
func shardsBelow(n int) (s owner.Set) {
	for shard := range n {
		s.Add(shard)
	}
	return s
}

// shardAlone returns a set of one shard.
func shardAlone(shard int) (s owner.Set) {
	s.Add(shard)
	return s
}

// newSimOwner returns a replica that owns the shards below n.
func newSimOwner(n int) *simOwner {
	return &simOwner{
		state: owner.State{Owned: shardsBelow(n), Replicas: 1}, changed: make(chan struct{}),
		heirs:   map[int]*simOwner{},
		trusted: func() time.Time { return time.Now().Add(time.Hour) },
	}
}

func (o *simOwner) State() (owner.State, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.state, o.changed
}

func (o *simOwner) Trusted() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.trusted()
}

func (o *simOwner) update(change func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change()
	close(o.changed)
	o.changed = make(chan struct{})
}

// give asks o to give a shard to another replica.
func (o *simOwner) give(shard int, heir *simOwner) {
	o.update(func() {
		if o.state.Owned.Has(shard) {
			o.state.Owned = o.state.Owned.Without(shardAlone(shard))
			o.state.Leaving.Add(shard)
			o.heirs[shard] = heir
		}
	})
}

// takeBack makes a shard that was given away, or is about to be, o's again.
func (o *simOwner) takeBack(shard int, heir *simOwner) {
	gone := false
	heir.update(func() {
		gone = heir.state.Owned.Has(shard)
		heir.state.Owned = heir.state.Owned.Without(shardAlone(shard))
	})
	o.update(func() {
		if gone || o.state.Leaving.Has(shard) {
			o.state.Leaving = o.state.Leaving.Without(shardAlone(shard))
			o.state.Owned.Add(shard)
			delete(o.heirs, shard)
		}
	})
}

// Left passes shards on to the replicas that are to own them.
func (o *simOwner) Left(set owner.Set) {
	heirs := map[int]*simOwner{}
	o.update(func() {
		for _, shard := range set.And(o.state.Leaving).Shards() {
			heirs[shard] = o.heirs[shard]
		}
		o.state.Leaving = o.state.Leaving.Without(set)
	})
	for shard, heir := range heirs {
		heir.update(func() { heir.state.Owned.Add(shard) })
	}
}

// countingOwner counts how often a loop turns: the loop asks for the state at each turn.
type countingOwner struct {
	*simOwner
	turns *atomic.Int64
}

func (o countingOwner) State() (owner.State, <-chan struct{}) {
	o.turns.Add(1)
	return o.simOwner.State()
}
