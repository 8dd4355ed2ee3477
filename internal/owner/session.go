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
	conn  *pgx.Conn
	parts []*part
}

// part is a group's part of a session.
type part struct {
	*Group
	class  int32 // of its locks
	kind   kind
	able   bool      // the membership says that this replica can publish
	logged string    // the note that was last logged
	apart  time.Time // since when this replica cannot publish while another one can; zero if that is not so
}

// membership is the number of the lock that shows this replica to others, if it says that it can or cannot publish.
func (p *part) membership(able bool) int { return membership{p.kind, able}.number() }

// newSession makes a session of a connection.
func (o *Owner) newSession(conn *pgx.Conn) *session {
	s := &session{Owner: o, conn: conn}
	for _, g := range o.groups {
		s.parts = append(s.parts, &part{
			Group: g, class: classOf(o.table, g.Column), kind: kindOf(o.Shards, g.Mapping), able: g.canPublish(),
		})
	}
	return s
}

// session runs one control connection to its end.
func (o *Owner) session(ctx context.Context) error {
	connecting, cancel := context.WithTimeout(ctx, o.TTL)
	defer cancel()
	conn, err := o.Connect(connecting)
	if err != nil {
		return fmt.Errorf("connect to database: %w", err)
	}
	s := o.newSession(conn)
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
var ErrStandby = errors.New("the database server is a standby, where nothing can be marked: connect to the primary, " +
	"or name all hosts in the URL, separated by commas")

// join makes this session count as a replica.
func (s *session) join(ctx context.Context) error {
	var classes []int32
	var numbers []int
	for _, p := range s.parts {
		classes, numbers = append(classes, p.class), append(numbers, p.membership(p.able))
	}
	var standby bool
	err := s.conn.QueryRow(ctx, sql.Text("owner_join.sql", nil), pgx.QueryExecModeExec, classes, numbers,
		fmt.Sprint(s.TTL.Milliseconds())).Scan(nil, nil, &standby)
	switch {
	case err != nil:
		return fmt.Errorf("join replicas: %w", err)
	case standby:
		return ErrStandby
	}
	return s.sign(ctx)
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
	if s.refuted() {
		return 0, fmt.Errorf("%w: all hosts of %s and %s must lead to the same primary",
			ErrElsewhere, s.Names.Of("Pool"), s.Names.Of("Direct"))
	}
	if err := s.give(ctx); err != nil {
		return 0, err
	}
	if err := s.declare(ctx); err != nil {
		return 0, err
	}
	found, err := s.list(ctx)
	if err != nil {
		return 0, err
	}
	pause := lookEver
	var together Set // shards of the first group, of which this replica prefers to own those of the others, too
	for i, p := range s.parts {
		l := p.read(found)
		if !l.joined {
			return 0, s.pooled(ErrPooler)
		}
		kept, next, err := s.turnOf(ctx, p, l, together)
		if err != nil {
			return 0, err
		}
		if pause = min(pause, next); i == 0 {
			together = kept
		}
	}
	s.lookAround(found)
	return pause, nil
}

// turnOf is the part of a turn that concerns one group. It returns the shards that the replica keeps.
func (s *session) turnOf(ctx context.Context, p *part, l locks, together Set) (
	kept Set, pause time.Duration, err error,
) {
	contested := false
	if l.note(p, s.Names) == "" && len(l.wanted(s.Shards, together)) > 0 {
		if l, contested, err = s.take(ctx, p, l, together); err != nil {
			return kept, 0, err
		}
	}
	note := l.note(p, s.Names)
	if note != p.logged {
		if p.logged = note; note != "" {
			s.Logger.Warn("this replica stands by", s.about(p, "reason", note)...)
		}
	}
	var surplus Set
	if s.mayGive(p, l) {
		surplus = l.surplus(s.Shards, together)
	}
	s.update(func() {
		state := &p.state
		leaving := state.Leaving.And(l.mine)
		for i := range leaving {
			leaving[i] |= surplus[i]
		}
		// Leaving shards are released even if they would be due to this replica again: it then takes them again.
		state.Leaving, state.Owned = leaving, l.mine.Without(leaving)
		state.Replicas, state.Unowned, state.Note, state.Err = l.replicas, l.unowned(s.Shards), note, nil
		state.Others, state.Unable = l.others, l.apart()
		kept = state.Owned
	})
	if contested {
		return kept, lookAgain/2 + rand.N(lookAgain/2), nil
	}
	share := l.share(s.Shards)
	due := l.mine.Len() < share && l.most > share
	if surplus != (Set{}) || due || l.taken.Len() < s.Shards {
		return kept, lookSoon, nil
	}
	return kept, lookEver, nil
}

// about returns the attributes of a log line about a group.
func (s *session) about(p *part, attributes ...any) []any {
	if len(s.parts) > 1 || len(s.strangers) > 0 {
		attributes = append(attributes, "destinations", p.Name)
	}
	return attributes
}

// list looks at the locks, which proves that the session is alive and extends the time of trust.
func (s *session) list(ctx context.Context) ([]lockRow, error) {
	asked := time.Now()
	ctx, cancel := context.WithTimeout(ctx, s.TTL-s.margin())
	defer cancel()
	var classes []int32
	for _, p := range s.parts {
		classes = append(classes, p.class)
	}
	for _, other := range s.strangers {
		classes = append(classes, classOf(s.table, other.Column))
	}
	found, err := listLocks(ctx, s.conn, classes)
	if err != nil {
		return nil, err
	}
	s.update(func() {
		for _, p := range s.parts {
			p.state.Trusted = asked.Add(s.TTL - s.margin())
		}
	})
	return found, nil
}
