// Package owner decides which replica relays which rows. Rows belong to shards by a hash of their key, and a replica owns a
// shard by a session advisory lock: nothing is written, and the lock is free the moment the server sees the owner's connection
// close. Every replica sees all locks. A replica that holds more than its fair share releases some; a replica that holds less
// tries the free ones.
//
// Replicas that would find a row's shard or its place in the order in different ways must not own shards side by side. Each
// replica shows its way by the number of another lock, its membership, and takes shards only while no replica of another kind
// holds any. It checks this under a lock that one replica holds at a time.
//
// A lock cannot fence the broker, so two rules keep a replica that was paused or cut off from publishing beside its successor.
// The server ends a session that is silent for the time to live (idle_session_timeout), which frees its lock. The owner itself
// trusts its ownership only until the start of its last answered look at the locks, plus the time to live, less a margin. That
// is always earlier than the server could have given the lock away.
package owner

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/setting"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
)

// Owner takes part in the ownership of one outbox. Its exported fields are its configuration.
type Owner struct {
	// Connect opens the control connection, which must not go through a transaction pooler.
	Connect func(context.Context) (*pgx.Conn, error)
	Table   string        // names the outbox: schema.table
	Shards  int           // the number of shards into which rows are divided, the same in every replica
	Mapping string        // how a row's shard and its place in the order are found, the same in every replica
	TTL     time.Duration // how long a silent owner keeps its locks
	Logger  *slog.Logger
	// Unable returns why this replica cannot publish at present, nil if it can. While another replica can publish, this one
	// takes no shards, and releases its own when that has lasted for three times the time to live. Unable must not block; it is
	// nil for a replica that always can publish.
	Unable func() error
	// Silent is called when the control connection is given up because nothing answered on it in time: other connections to the
	// server may be useless too. It must not block; may be nil.
	Silent func()
	// Witness learns of each session, so that other connections can check that they reach the same server; may be nil.
	Witness *Witness
	// Channel is notified when shards are released, so that other replicas look at once; empty for none.
	Channel string
	// Names are the user's names of the relay's configuration fields, for errors.
	Names setting.Names

	mu      sync.Mutex
	state   State
	changed chan struct{} // closed and replaced at every change of state
	left    Set           // leaving shards that may be released now
	poke    chan struct{} // requests a look at once
}

// State is what a replica knows of the ownership.
type State struct {
	Owned    Set       // shards to relay
	Leaving  Set       // shards that are still held, but will be released once their rows have settled
	Term     uint64    // counts the sessions in which this process owned any shard
	Trusted  time.Time // nothing is published after this time, on the monotonic clock
	Replicas int       // number of replicas that share the outbox, as last counted; 0 if unknown
	Others   int       // replicas with another number of shards or another mapping, which never own shards beside this one
	Unowned  int       // shards that no replica held at the last look
	Unable   bool      // this replica takes no shards, since it cannot publish and another one can
	Note     string    // why this replica owns nothing although it could, for display
	Err      error     // why ownership cannot be decided at the moment
}

// Holds reports whether any shard is held.
func (s State) Holds() bool { return s.Owned != Set{} || s.Leaving != Set{} }

const (
	lookSoon = 250 * time.Millisecond // while there are shards to take or to release
	lookEver = time.Second

	lookAgain = 50 * time.Millisecond // at most, while another replica takes shards
)

// Given is the payload of the notification that shards were released.
const Given = "outbox-relay:given"

// State returns the present state and a channel that is closed when the state changes. Reaching Trusted is not a change.
func (o *Owner) State() (State, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.prepare()
	return o.state, o.changed
}

// prepare makes the channels. The caller holds mu.
func (o *Owner) prepare() {
	if o.changed == nil {
		o.changed, o.poke = make(chan struct{}), make(chan struct{}, 1)
	}
}

func (o *Owner) update(change func(*State)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.prepare()
	before := o.state
	change(&o.state)
	after := o.state
	after.Trusted, before.Trusted = time.Time{}, time.Time{}
	if errors.Is(after.Err, before.Err) {
		after.Err, before.Err = nil, nil
	}
	if before != after {
		close(o.changed)
		o.changed = make(chan struct{})
	}
}

// Trusted returns the time until which this replica may publish. It is zero when it owns nothing.
func (o *Owner) Trusted() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.state.Holds() {
		return time.Time{}
	}
	return o.state.Trusted
}

// Left reports that no rows of these shards are in flight any more: the leaving ones among them are released.
func (o *Owner) Left(shards Set) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.prepare()
	for i := range o.left {
		o.left[i] |= shards[i] & o.state.Leaving[i]
	}
	if (o.left != Set{}) {
		o.look()
	}
}

// Look requests a look at the locks at once, since another replica may have released shards.
func (o *Owner) Look() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.prepare()
	o.look()
}

func (o *Owner) look() {
	select {
	case o.poke <- struct{}{}:
	default:
	}
}

// Run keeps a control connection, owns its share of the outbox while possible, and releases shards that other replicas should
// have. It returns when ctx ends, after it has released everything. The caller must stop publishing before it ends ctx.
func (o *Owner) Run(ctx context.Context) {
	var last string
	for attempt := 0; ctx.Err() == nil; attempt++ {
		started := time.Now()
		err := o.session(ctx)
		joined := false
		o.update(func(s *State) {
			joined = s.Replicas > 0
			*s, o.left = State{Term: s.Term, Err: err}, Set{}
		})
		if ctx.Err() != nil {
			return
		}
		if joined && time.Since(started) > o.TTL { // an attempt to connect may take as long
			attempt, last = 0, ""
		}
		if text := errtext.Line(err); text != last {
			o.Logger.Warn("nothing is owned", "error", err)
			last = text
		}
		pause := min(50*time.Millisecond<<min(attempt, 6), 2*time.Second)
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause/2)):
		}
	}
}

// margin is the last part of the time to live, in which the owner no longer trusts its locks. It allows for clocks that run at
// different rates, and for a write that was checked just before.
func (o *Owner) margin() time.Duration { return o.TTL / 5 }
