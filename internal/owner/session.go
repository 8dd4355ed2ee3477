package owner

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/sql"
)

// session is one control connection. One goroutine uses it.
type session struct {
	*Owner
	conn   *pgx.Conn
	class  int32
	kind   kind
	able   bool      // the membership says that this replica can publish
	logged string    // the note that was last logged
	apart  time.Time // since when this replica cannot publish while another one can; zero if that is not so
}

// session runs one control connection to its end.
func (o *Owner) session(ctx context.Context) error {
	connecting, cancel := context.WithTimeout(ctx, o.TTL)
	defer cancel()
	conn, err := o.Connect(connecting)
	if err != nil {
		return fmt.Errorf("connect to database: %w", err)
	}
	s := session{Owner: o, conn: conn, class: classOf(o.Table), kind: kindOf(o.Shards, o.Mapping), able: o.canPublish()}
	defer hangUp(ctx, conn)
	if err := CheckPooler(connecting, conn, o.Connect); err != nil {
		return o.pooled(err)
	}
	if err := s.join(connecting); err != nil {
		return err
	}
	defer s.unsign()
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
var ErrStandby = errors.New("the database server is a standby, where nothing can be marked: connect to the primary, or name all hosts in " +
	"the URL, separated by commas")

// join makes this session count as a replica.
func (s *session) join(ctx context.Context) error {
	var standby bool
	err := s.conn.QueryRow(ctx, sql.Text("owner_join.sql", nil), pgx.QueryExecModeExec, s.class,
		fmt.Sprint(s.TTL.Milliseconds()), membership{s.kind, s.able}.number()).Scan(nil, nil, &standby)
	switch {
	case err != nil:
		return fmt.Errorf("join replicas: %w", err)
	case standby:
		return ErrStandby
	}
	return s.sign(ctx)
}

// hangUp ends a connection. A polite end frees the locks at once; the limit is for a dead connection. After a statement that
// was cut off, the library asks the server to cancel it. That request must not be cut off by the end of this process: PgBouncer
// 1.18 crashes on a cancel request whose sender is gone.
func hangUp(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // the session is over either way
	select {
	case <-conn.PgConn().CleanupDone():
	case <-ctx.Done():
	}
}

// wait waits until a look is requested, the pause is over or ctx ends. The server sends unrequested data only to end the
// session; that is an error, and it is noticed at once.
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

// turn looks at the locks, releases what should and can be released, and takes the free shards that are due to this replica. It
// returns how long to wait before the next look.
func (s *session) turn(ctx context.Context) (time.Duration, error) {
	if s.refuted() {
		return 0, fmt.Errorf("%w: all hosts of %s and %s must lead to the same primary", ErrElsewhere, s.Names.Of("Pool"), s.Names.Of("Direct"))
	}
	if err := s.give(ctx); err != nil {
		return 0, err
	}
	if err := s.declare(ctx); err != nil {
		return 0, err
	}
	l, err := s.list(ctx)
	if err != nil {
		return 0, err
	}
	if !l.joined {
		return 0, s.pooled(ErrPooler)
	}
	note, contested := "", false
	switch {
	case l.foreign != nil:
		note = s.kind.why(*l.foreign, s.Names)
	case len(l.wanted(s.Shards)) > 0:
		if l, contested, err = s.take(ctx, l); err != nil {
			return 0, err
		}
	}
	if note != s.logged {
		if s.logged = note; note != "" {
			s.Logger.Warn("this replica stands by", "reason", note)
		}
	}
	var surplus Set
	switch {
	case l.foreign != nil && l.foreign.before(s.kind): // they own shards beside this replica, if it owns any
		surplus = l.mine
	case s.mayGive(l):
		surplus = l.surplus(s.Shards)
	}
	s.update(func(state *State) {
		leaving := state.Leaving.And(l.mine)
		for i := range leaving {
			leaving[i] |= surplus[i]
		}
		// Leaving shards are released even if they would be due to this replica again: it then takes them again.
		state.Leaving, state.Owned = leaving, l.mine.Without(leaving)
		state.Replicas, state.Unowned, state.Note, state.Err = l.replicas, l.unowned(s.Shards), note, nil
		state.Others, state.Unable = l.strangers(), l.apart()
	})
	if contested {
		return lookAgain/2 + rand.N(lookAgain/2), nil
	}
	share := l.share(s.Shards)
	due := l.mine.Len() < share && l.most > share
	if surplus != (Set{}) || due || l.taken.Len() < s.Shards {
		return lookSoon, nil
	}
	return lookEver, nil
}

// list looks at the locks, which proves that the session is alive and extends the time of trust.
func (s *session) list(ctx context.Context) (locks, error) {
	asked := time.Now()
	ctx, cancel := context.WithTimeout(ctx, s.TTL-s.margin())
	defer cancel()
	found, err := listLocks(ctx, s.conn, s.class)
	if err != nil {
		return locks{}, err
	}
	s.update(func(state *State) { state.Trusted = asked.Add(s.TTL - s.margin()) })
	return read(found, s.kind), nil
}

// take tries the free shards that are due to this replica, and returns the locks afterwards. One replica at a time takes
// shards, and looks at the locks while no other replica can take any: however long it pauses in between, replicas of two kinds
// never become owners side by side. contested reports that another replica is taking shards.
func (s *session) take(ctx context.Context, l locks) (_ locks, contested bool, err error) {
	asked := time.Now()
	limited, cancel := context.WithTimeout(ctx, s.TTL-s.margin())
	defer cancel()
	var alone bool
	if err := s.conn.QueryRow(limited, sql.Text("owner_guard.sql", nil), pgx.QueryExecModeExec, s.class).Scan(&alone); err != nil {
		return l, false, fmt.Errorf("guard shards: %w", err)
	}
	if !alone {
		return l, true, nil
	}
	defer func() {
		if _, failed := s.conn.Exec(limited, sql.Text("owner_unguard.sql", nil), pgx.QueryExecModeExec, s.class); failed != nil && err == nil {
			err = fmt.Errorf("end guard of shards: %w", failed)
		}
	}()
	if l, err = s.list(limited); err != nil || l.foreign != nil {
		return l, false, err
	}
	before := l.mine
	rows, err := s.conn.Query(limited, sql.Text("owner_take.sql", nil), pgx.QueryExecModeExec, s.class, l.wanted(s.Shards))
	if err != nil {
		return l, false, fmt.Errorf("take shards: %w", err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return l, false, fmt.Errorf("take shards: %w", err)
	}
	for _, shard := range got {
		l.mine.Add(shard)
		l.taken.Add(shard)
	}
	if len(got) == 0 {
		return l, false, nil
	}
	s.update(func(state *State) {
		if !state.Holds() {
			state.Term++
			state.Trusted = asked.Add(s.TTL - s.margin())
		}
	})
	s.Logger.Info("took shards", "shards", len(got), "owned", l.mine.Len(), "of", s.Shards, "before", before.Len(), "replicas", l.replicas)
	return l, false, nil
}

// give releases the leaving shards that have no rows in flight any more.
func (s *session) give(ctx context.Context) error {
	s.mu.Lock()
	shards := s.left
	s.mu.Unlock()
	if shards == (Set{}) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.TTL)
	defer cancel()
	if _, err := s.conn.Exec(ctx, sql.Text("owner_give.sql", nil), pgx.QueryExecModeExec, s.class, shards.Shards(), s.Channel,
		Given); err != nil {
		return fmt.Errorf("release shards: %w", err)
	}
	// The engines may have reported them again meanwhile. That must not release them if this replica takes them again.
	s.update(func(state *State) {
		state.Leaving, s.left = state.Leaving.Without(shards), s.left.Without(shards)
	})
	s.Logger.Info("gave shards back", "shards", shards.Len())
	return nil
}

// leave releases everything.
func (s *session) leave(ctx context.Context) error {
	state, _ := s.State()
	if !state.Holds() {
		return nil
	}
	held := state.Leaving
	for i := range held {
		held[i] |= state.Owned[i]
	}
	s.update(func(state *State) { state.Owned, state.Leaving = Set{}, Set{} })
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if _, err := s.conn.Exec(ctx, sql.Text("owner_leave.sql", nil), pgx.QueryExecModeExec, s.class, held.Shards(), s.Channel, Given,
		membership{s.kind, s.able}.number()); err != nil {
		return fmt.Errorf("release shards: %w", err)
	}
	s.Logger.Info("gave all shards back")
	return nil
}

// classOf returns the lock class of an outbox, the same in every replica.
func classOf(table string) int32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte("outbox-relay:" + table)) // a hash never fails
	return int32(h.Sum32())
}
