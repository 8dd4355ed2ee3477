package owner

import (
	"hash/fnv"
	"time"
)

// A Group is the destinations that keep their state in the same columns of the table, and so divide its rows. The
// shards of each group have owners of their own. Its exported fields are its configuration.
type Group struct {
	// Column is the column with relayed_at. It names the group among all replicas. It is empty for the columns of the
	// table.
	Column string
	Name   string // names of the destinations, for display
	// Mapping is how a row's shard, its place in the order and its destination are found. Replicas with another mapping
	// never own shards of the group beside this one. It is empty for a group that this replica only watches: others may
	// relay it.
	Mapping string
	// Unable reports whether this replica cannot publish at present. While another replica can publish, this one takes
	// no shards, and releases its own when that has lasted for three times the time to live. Unable must not block; it
	// is nil for a replica that always can publish.
	Unable func() bool

	owner *Owner
	class int32 // of its locks
	state State // guarded by the owner's mu, like left
	left  Set   // leaving shards that may be released now

	// The present session's alone:
	shown  membership
	logged string    // the note that was last logged
	since  time.Time // when what may have to last began; zero if it is over, see lasts
}

// reset forgets what was known of the ownership, because of an error or at the beginning.
func (g *Group) reset(err error) {
	g.state, g.left = State{Column: g.Column, Name: g.Name, Err: err, Watched: g.Mapping == ""}, Set{}
}

// State returns the present state and a channel that is closed when the state of any group changes. The end of trust is
// not a change.
func (g *Group) State() (State, <-chan struct{}) {
	g.owner.mu.Lock()
	defer g.owner.mu.Unlock()
	return g.state, g.owner.changed
}

// Trusted returns the time until which this replica may publish. It is zero when it owns nothing.
func (g *Group) Trusted() time.Time {
	g.owner.mu.Lock()
	defer g.owner.mu.Unlock()
	if !g.state.Holds() {
		return time.Time{}
	}
	return g.owner.trusted
}

// Left reports that no rows of these shards are in flight any more: the leaving ones among them are released.
func (g *Group) Left(shards Set) {
	g.owner.mu.Lock()
	defer g.owner.mu.Unlock()
	if g.left = g.left.Or(shards.And(g.state.Leaving)); g.left != (Set{}) {
		g.owner.Look()
	}
}

// membership returns what this replica is to show at present.
func (g *Group) membership() membership {
	return membershipOf(g.owner.Shards, g.Mapping, g.Unable == nil || !g.Unable())
}

// classOf returns the class of the locks of a group, the same in every replica. The group in the table's own columns
// shares it with versions that know no other one.
func classOf(table, column string) int32 {
	text := "outbox-relay:" + table
	if column != "" {
		text += "/" + column
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(text)) // a hash never fails
	return int32(h.Sum32())
}
