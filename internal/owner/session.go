package owner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/sql"
)

// session is one control connection. One goroutine uses it.
type session struct {
	*Owner
	conn *pgx.Conn
	// order is a random order of all shards, of which the session takes the first ones that it can have and releases
	// the last ones. It is the same for all groups: the marks of a row for two of them can be written at once where one
	// replica owns the row's shard of both.
	order []int
}

// session runs one control connection to its end.
func (o *Owner) session(ctx context.Context) error {
	connecting, cancel := context.WithTimeout(ctx, o.TTL)
	defer cancel()
	conn, err := o.Connect(connecting)
	if err != nil {
		return fmt.Errorf("connect to database: %w", err)
	}
	s := &session{o, conn, rand.Perm(o.Shards)}
	defer hangUp(ctx, conn)
	if err := CheckPooler(connecting, conn, o.Connect); err != nil {
		return err
	}
	if err := s.join(connecting); err != nil {
		return err
	}
	defer s.Witness.follow(0)
	for {
		pause, err := s.turn(ctx)
		if err != nil {
			if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() && s.Silent != nil {
				s.Silent()
			}
			return err
		}
		if err := s.wait(ctx, min(pause, o.TTL/5)); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return s.leave(ctx)
		}
	}
}

// ErrStandby reports that the control connection has reached a standby server.
var ErrStandby = errors.New("the database server is a standby, where nothing can be marked: connect to the primary, " +
	"or name all hosts in the URL, separated by commas")

// join makes this session count as a replica.
func (s *session) join(ctx context.Context) error {
	var classes []int32
	var numbers []int32
	for _, g := range s.groups {
		if g.Mapping == "" {
			continue
		}
		g.shown, g.logged, g.since = g.membership(), "", time.Time{}
		classes, numbers = append(classes, g.class), append(numbers, int32(g.shown))
	}
	var standby bool
	sign := rand.Int64N(1<<62) + 1
	err := s.conn.QueryRow(ctx, sql.Text("owner_join.sql", nil), pgx.QueryExecModeExec, classes, numbers,
		fmt.Sprint(s.TTL.Milliseconds()), sign).Scan(nil, nil, nil, nil, &standby)
	switch {
	case err != nil:
		return fmt.Errorf("join replicas: %w", err)
	case standby:
		return ErrStandby
	}
	s.Witness.follow(sign)
	return nil
}

// hangUp ends a connection. A polite end frees the locks at once; the limit is for a dead connection. After a statement
// that was cut off, the library asks the server to cancel it. That request must not be cut off by the end of this
// process: PgBouncer 1.18 crashes on a cancel request whose sender is gone.
func hangUp(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // the session is over either way
	select {
	case <-conn.PgConn().CleanupDone():
	case <-ctx.Done():
	}
}

// wait waits until a look is requested, the pause is over or ctx ends. The server sends unrequested data only to end
// the session; that is an error, and it is noticed at once.
func (s *session) wait(ctx context.Context, pause time.Duration) error {
	waiting, end := context.WithTimeout(ctx, pause)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-s.poke:
			end()
		case <-waiting.Done():
		}
	}()
	err := s.conn.PgConn().WaitForNotification(waiting)
	end()
	<-ended
	if err != nil && s.conn.IsClosed() {
		return fmt.Errorf("the server has ended the session: %w", err)
	}
	return nil // the wait ended first, which leaves the connection unchanged
}

// turn looks at the locks, releases what should and can be released, and takes the free shards that are due to this
// replica. It returns how long to wait before the next look.
func (s *session) turn(ctx context.Context) (time.Duration, error) {
	if s.Witness.missing.Load() { // the next session may reach the server that the other connections reach
		return 0, fmt.Errorf("%w: all hosts of %s and %s must lead to the same primary",
			ErrElsewhere, s.Names.Of("Pool"), s.Names.Of("Direct"))
	}
	limited, cancel := context.WithTimeout(ctx, s.TTL-s.margin())
	defer cancel()
	for _, g := range s.groups {
		if err := s.give(limited, g); err != nil {
			return 0, err
		}
		if err := s.declare(limited, g); err != nil {
			return 0, err
		}
	}
	found, err := s.list(limited)
	if err != nil {
		return 0, err
	}
	pause := lookEver
	for _, g := range s.groups {
		if g.Mapping == "" {
			s.watch(g, found[g.class])
			continue
		}
		l := g.read(found[g.class], s.Shards)
		if !l.joined {
			return 0, ErrPooler
		}
		settled, err := s.turnOf(ctx, g, l)
		if err != nil {
			return 0, err
		}
		if !settled {
			pause = lookSoon
		}
	}
	return pause, nil
}

// turnOf is the part of a turn that concerns one group, with a limit of its own: there may be a hundred, and the server
// far away. It reports whether there is nothing to take or to release.
func (s *session) turnOf(ctx context.Context, g *Group, l locks) (settled bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.TTL-s.margin())
	defer cancel()
	if l.foreign == 0 && len(l.wanted(s.order)) > 0 {
		if l, err = s.take(ctx, g, l); err != nil {
			return false, err
		}
	}
	note := "" // why this replica takes no shards of the group
	if l.foreign != 0 {
		note = g.shown.waits(l.foreign, s.Names)
	}
	if note != "" && note != g.logged {
		s.Logger.Warn("this replica stands by", "destinations", g.Name, "reason", note)
	}
	g.logged = note
	var surplus Set
	if lasting := s.lasts(g, l.apart); lasting || !l.apart {
		surplus = l.surplus(s.order)
	}
	s.update(func() {
		state := &g.state
		// Leaving shards are released even if they would be due to this replica again: it then takes them again.
		state.Leaving = state.Leaving.And(l.mine).Or(surplus)
		state.Owned = l.mine.Without(state.Leaving)
		state.Replicas, state.Unowned, state.Note, state.Err = l.replicas, l.unowned(s.Shards), note, nil
		state.Others, state.Unable = l.others, l.apart
	})
	return l.mine.Len() == l.share && l.taken.Len() >= s.Shards, nil
}

// list looks at the locks, which proves that the session is alive and extends the time of trust.
func (s *session) list(ctx context.Context) (map[int32][]Replica, error) {
	asked := time.Now()
	var classes []int32
	for _, g := range s.groups {
		classes = append(classes, g.class)
	}
	found, err := lookAt(ctx, s.conn, classes)
	if err != nil {
		return nil, err
	}
	s.update(func() { s.trusted = asked.Add(s.TTL - s.margin()) })
	return found, nil
}
