// Package owner decides which replica relays which rows. Rows belong to shards by a hash of their key, and a replica
// owns a shard by a session advisory lock: nothing is written, and the lock is free the moment the server sees the
// owner's connection close. Every replica sees all locks. A replica that holds more than its fair share releases some;
// a replica that holds less tries the free ones.
//
// Destinations that keep their state in the same columns are a group, and each group has shards of its own. So replicas
// may relay different groups of one table.
//
// Replicas that would find a row's shard, its place in the order or its destination in different ways must not own
// shards of a group side by side. Each replica shows its way by the number of another lock, its membership, and takes
// shards only while no replica of another kind holds any. It checks this under a lock that one replica holds at a time.
//
// A lock cannot fence the broker, so two rules keep a replica that was paused or cut off from publishing beside its
// successor. The server ends a session that is silent for the time to live (idle_session_timeout), which frees its
// lock. The owner itself trusts its ownership only until the start of its last answered look at the locks, plus the
// time to live, less a margin. That is always earlier than the server could have given the lock away.
package owner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/internal/setting"
)

// Owner takes part in the ownership of one outbox. Its exported fields are its configuration.
type Owner struct {
	// Connect opens the control connection, which must not go through a transaction pooler.
	Connect func(context.Context) (*pgx.Conn, error)
	Shards  int           // the number of shards into which rows are divided, the same in every replica
	TTL     time.Duration // how long a silent owner keeps its locks
	Logger  *slog.Logger
	// Silent is called when the control connection is given up because nothing answered on it in time: other
	// connections to the server may be useless too. It must not block; may be nil.
	Silent func()
	// Witness learns of each session, so that other connections can check that they reach the same server.
	Witness *Witness
	// Channel is notified when shards are released, so that other replicas look at once; empty for none.
	Channel string
	// Names are the user's names of the relay's configuration fields, for errors.
	Names setting.Names

	mu      sync.Mutex
	groups  []*Group      // of the table
	trusted time.Time     // nothing is published after this time, on the monotonic clock
	changed chan struct{} // closed and replaced at every change of state
	poke    chan struct{} // requests a look at once

	// Touched only by Run:
	logged string // why the last session failed, as it was logged
	held   bool   // shards were held since Run began
}

// New makes an owner of no groups, with its configuration to be filled in.
func New() *Owner {
	return &Owner{Witness: &Witness{}, changed: make(chan struct{}), poke: make(chan struct{}, 1)}
}

// Open says which groups an outbox has. The name of the table is schema.table. Open must not be called while Run runs.
func (o *Owner) Open(table string, groups []*Group) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.groups
	o.groups = groups
	for _, g := range groups {
		for _, b := range before {
			if g.Column == b.Column { // a new term does not end the waiting of a watched group
				g.logged, g.since = b.logged, b.since
			}
		}
		g.owner, g.class = o, classOf(table, g.Column)
		g.reset(nil)
	}
	o.notify()
}

// State is what a replica knows of the ownership of a group.
type State struct {
	Column, Name string    // as in [Group]
	Owned        Set       // shards to relay
	Leaving      Set       // shards that are still held, but will be released once their rows have settled
	Replicas     int       // number of replicas that share or relay the group, as last counted; 0 if unknown
	Others       int       // replicas of other kinds, which never own shards beside this one
	Unowned      int       // shards that no replica held at the last look
	Unable       bool      // this replica takes no shards, since it cannot publish and another one can
	Note         string    // why this replica owns nothing although it could, for display
	Err          error     // why ownership cannot be decided at the moment
	Watched      bool      // this replica does not relay the group
	Unserved     time.Time // since when no replica relays a watched group; zero unless that lasts longer than a restart
}

// Holds reports whether any shard is held.
func (s State) Holds() bool { return s.Owned != Set{} || s.Leaving != Set{} }

const (
	lookSoon = 250 * time.Millisecond // while there are shards to take or to release
	lookEver = time.Second
)

// Given is the payload of the notification that shards were released.
const Given = "outbox-relay:given"

// States returns the present states of all groups, and a channel that is closed when one of them changes. The end of
// trust is not a change.
func (o *Owner) States() ([]State, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.states(), o.changed
}

// Replicas returns how many replicas relay the group that has most, this one included; 0 if that is not known.
func (o *Owner) Replicas() (most int) {
	states, _ := o.States()
	for _, s := range states {
		most = max(most, s.Replicas+s.Others)
	}
	return most
}

// states returns the states of all groups. The caller holds mu.
func (o *Owner) states() []State {
	states := make([]State, len(o.groups))
	for i, g := range o.groups {
		states[i] = g.state
	}
	return states
}

// notify announces a change. The caller holds mu.
func (o *Owner) notify() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// update changes the states of groups.
func (o *Owner) update(change func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.states()
	if change(); !slices.Equal(before, o.states()) {
		o.notify()
	}
}

// Look requests a look at the locks at once, since another replica may have released shards.
func (o *Owner) Look() {
	select {
	case o.poke <- struct{}{}:
	default:
	}
}

// Run keeps a control connection, owns its share of each group while possible, and releases shards that other replicas
// should have. It returns when ctx ends, after it has released everything. The caller must stop publishing before it
// ends ctx. Run also returns when a connection is lost over which shards were held, even if they had been given away:
// another replica may have relayed their rows before this one owns them again, and the next connection may lead to a
// server that has forgotten the last transactions. It may then be called again.
func (o *Owner) Run(ctx context.Context) {
	for o.held = false; ctx.Err() == nil && !o.held; {
		started := time.Now()
		err := o.session(ctx)
		if errors.Is(err, ErrPooler) {
			err = fmt.Errorf("%w: set %s to the PostgreSQL server itself", err, o.Names.Of("Direct"))
		}
		joined := false
		o.update(func() {
			joined, o.trusted = !o.trusted.IsZero(), time.Time{}
			for _, g := range o.groups {
				g.reset(err)
			}
		})
		if ctx.Err() != nil {
			return
		}
		pause := time.Second
		if joined && time.Since(started) > o.TTL { // an attempt to connect may take as long
			pause, o.logged = 50*time.Millisecond, ""
		}
		if text := errtext.Line(err); text != o.logged {
			o.Logger.Warn("cannot own shards", "error", err)
			o.logged = text
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause/2)):
		}
	}
}

// margin is the last part of the time to live, in which the owner no longer trusts its locks. It allows for clocks that
// run at different rates, and for a write that was checked just before.
func (o *Owner) margin() time.Duration { return o.TTL / 5 }
