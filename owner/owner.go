// Package owner decides which replica relays. A replica owns the outbox by a session advisory lock:
// nothing is written, and the lock is free the moment the server sees the owner's connection close.
//
// A lock cannot fence the broker, so two rules keep a replica that was paused or cut off from
// publishing beside its successor. The server ends a session that is silent for the time to live
// (idle_session_timeout), which frees its lock. And the owner itself trusts its ownership only until
// the start of its last answered heartbeat, plus the time to live, less a margin: always earlier
// than the server could have given the lock away.
package owner

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/sql"
)

// Owner takes part in the ownership of one outbox. Its exported fields are its configuration.
type Owner struct {
	// Connect opens the control connection, which must not go through a transaction pooler.
	Connect func(context.Context) (*pgx.Conn, error)
	Table   string        // names the outbox: schema.table
	TTL     time.Duration // how long a silent owner keeps its lock
	Logger  *slog.Logger

	mu      sync.Mutex
	state   State
	changed chan struct{} // closed and replaced at every change of state
}

// State is what a replica knows of its ownership.
type State struct {
	Owned    bool
	Term     uint64    // counts the times that this process became the owner
	Trusted  time.Time // nothing is published after this time, on the monotonic clock
	Replicas int       // that share the outbox, as last counted
	Err      error     // why ownership cannot be decided at the moment
}

// unit is the lock that the owner holds. One unit makes one replica active and the others standby.
const unit = 0

// retryEvery is how often a standby tries to become the owner.
const retryEvery = 500 * time.Millisecond

// ErrPooler says that the control connection goes through a transaction pooler, where a session's
// locks mean nothing.
var ErrPooler = errors.New("the connection for ownership goes through a transaction pooler, which breaks session locks: set OUTBOX_DATABASE_DIRECT_URL to the PostgreSQL server itself")

// State returns the present state and a channel that is closed when it changes. The passing of
// Trusted is not a change.
func (o *Owner) State() (State, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed == nil {
		o.changed = make(chan struct{})
	}
	return o.state, o.changed
}

func (o *Owner) update(change func(*State)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.state
	change(&o.state)
	if before.Owned != o.state.Owned || before.Replicas != o.state.Replicas || !errors.Is(o.state.Err, before.Err) {
		if o.changed != nil {
			close(o.changed)
		}
		o.changed = make(chan struct{})
	}
}

// Trusted returns the time until which this replica may publish. It is zero for a standby.
func (o *Owner) Trusted() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.state.Owned {
		return time.Time{}
	}
	return o.state.Trusted
}

// Run keeps a control connection, becomes the owner when that is possible, and stays it. It returns
// when ctx ends, after it has given the outbox back; whoever ends ctx has stopped publishing before.
func (o *Owner) Run(ctx context.Context) {
	for attempt := 0; ctx.Err() == nil; attempt++ {
		started := time.Now()
		err := o.session(ctx)
		o.update(func(s *State) { *s = State{Term: s.Term, Err: err} })
		if ctx.Err() != nil {
			return
		}
		if time.Since(started) > o.TTL {
			attempt = 0
		}
		o.Logger.Warn("ownership connection lost", "error", err)
		pause := min(50*time.Millisecond<<min(attempt, 6), 2*time.Second)
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause/2)):
		}
	}
}

// session runs one control connection to its end.
func (o *Owner) session(ctx context.Context) error {
	class := classOf(o.Table)
	connectCtx, cancel := context.WithTimeout(ctx, o.TTL)
	defer cancel()
	conn, err := o.Connect(connectCtx)
	if err != nil {
		return fmt.Errorf("connect to database: %w", err)
	}
	defer func() {
		// Closing politely frees the locks at once; the limit is for a connection that is dead.
		closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closeCtx) // the session is over either way
	}()
	if _, err := conn.Exec(connectCtx, sql.Text("owner_join.sql", nil), pgx.QueryExecModeExec, class, fmt.Sprint(o.TTL.Milliseconds())); err != nil {
		return fmt.Errorf("join replicas: %w", err)
	}
	var visible bool
	if err := conn.QueryRow(connectCtx, sql.Text("owner_visible.sql", nil), pgx.QueryExecModeExec, class).Scan(&visible); err != nil {
		return fmt.Errorf("look for own lock: %w", err)
	}
	if !visible {
		return ErrPooler
	}
	o.update(func(s *State) { s.Err = nil })

	var counted time.Time
	for {
		asked := time.Now()
		if asked.Sub(counted) >= o.TTL/5 {
			if err := o.heartbeat(ctx, conn, class); err != nil {
				return err
			}
			counted = asked
		}
		if !o.state.Owned { // only this goroutine changes it
			if err := o.try(ctx, conn, class); err != nil {
				return err
			}
		}
		pause := min(retryEvery, o.TTL/5)
		if o.state.Owned {
			pause = o.TTL / 5
		}
		select {
		case <-ctx.Done():
			return o.release(ctx, conn, class)
		case <-time.After(pause):
		}
	}
}

// heartbeat proves that the session lives and moves the time of trust.
func (o *Owner) heartbeat(ctx context.Context, conn *pgx.Conn, class int32) error {
	asked := time.Now()
	ctx, cancel := context.WithTimeout(ctx, o.TTL-o.margin())
	defer cancel()
	var replicas int
	if err := conn.QueryRow(ctx, sql.Text("owner_heartbeat.sql", nil), pgx.QueryExecModeExec, class).Scan(&replicas); err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	o.update(func(s *State) {
		s.Replicas = replicas
		s.Trusted = asked.Add(o.TTL - o.margin())
	})
	return nil
}

// try becomes the owner if nobody is.
func (o *Owner) try(ctx context.Context, conn *pgx.Conn, class int32) error {
	asked := time.Now()
	ctx, cancel := context.WithTimeout(ctx, o.TTL)
	defer cancel()
	var got bool
	if err := conn.QueryRow(ctx, sql.Text("owner_try.sql", nil), pgx.QueryExecModeExec, class, unit).Scan(&got); err != nil {
		return fmt.Errorf("try to become owner: %w", err)
	}
	if got {
		o.update(func(s *State) {
			s.Owned, s.Trusted = true, asked.Add(o.TTL-o.margin())
			s.Term++
		})
		o.Logger.Info("became the owner of the outbox")
	}
	return nil
}

func (o *Owner) release(ctx context.Context, conn *pgx.Conn, class int32) error {
	if !o.state.Owned {
		return nil
	}
	o.update(func(s *State) { s.Owned = false })
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if _, err := conn.Exec(ctx, sql.Text("owner_release.sql", nil), pgx.QueryExecModeExec, class, unit); err != nil {
		return fmt.Errorf("give the outbox back: %w", err)
	}
	o.Logger.Info("gave the outbox back")
	return nil
}

// margin is the part of the time to live in which the owner no longer trusts its lock, for clocks that
// do not run alike and a write that was checked just before.
func (o *Owner) margin() time.Duration { return o.TTL / 5 }

// classOf returns the lock class of an outbox, the same in every replica.
func classOf(table string) int32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte("outbox-relay:" + table)) // a hash never fails
	return int32(h.Sum32())
}
