package owner

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/sql"
)

// take tries the free shards that are due to this replica, and returns the locks afterwards. One replica at a time
// takes shards, and looks at the locks while no other replica can take any: however long it pauses in between, replicas
// of two kinds never become owners side by side. If another replica is taking shards, the next look tries again.
func (s *session) take(ctx context.Context, g *Group, l locks) (locks, error) {
	err := pgx.BeginFunc(ctx, s.conn, func(tx pgx.Tx) error {
		var alone bool
		err := tx.QueryRow(ctx, sql.Text("owner_guard.sql", nil), pgx.QueryExecModeExec, g.class).Scan(&alone)
		if err != nil || !alone {
			return err
		}
		found, err := s.list(ctx)
		if err != nil {
			return err
		}
		if l = g.read(found[g.class], s.Shards); l.foreign != 0 {
			return nil
		}
		before := l.mine.Len()
		// The rows hold the error of the query, too.
		rows, _ := tx.Query(ctx, sql.Text("owner_take.sql", nil), pgx.QueryExecModeExec, g.class, l.wanted(s.order))
		got, err := pgx.CollectRows(rows, pgx.RowTo[int])
		for _, shard := range got {
			l.mine.Add(shard)
			l.taken.Add(shard)
		}
		if len(got) > 0 {
			s.held = true
			s.Logger.Info("acquired shards", "destinations", g.Name, "shards", len(got), "owned", l.mine.Len(),
				"of", s.Shards, "before", before, "replicas", l.replicas)
		}
		return err
	})
	if err != nil {
		return l, fmt.Errorf("take shards: %w", err)
	}
	return l, nil
}

// give releases the leaving shards of a group that have no rows in flight any more.
func (s *session) give(ctx context.Context, g *Group) error {
	s.mu.Lock()
	shards := g.left
	s.mu.Unlock()
	if shards == (Set{}) {
		return nil
	}
	if _, err := s.conn.Exec(ctx, sql.Text("owner_give.sql", nil), pgx.QueryExecModeExec,
		g.class, shards.Shards(), s.Channel, Given); err != nil {
		return fmt.Errorf("release shards: %w", err)
	}
	// The engines may have reported them again meanwhile. That must not release them if this replica takes them again.
	s.update(func() {
		g.state.Leaving, g.left = g.state.Leaving.Without(shards), g.left.Without(shards)
	})
	s.Logger.Info("released shards", "destinations", g.Name, "shards", shards.Len())
	return nil
}

// declare shows the other replicas when this one can no longer publish to the destinations of a group, or can again.
func (s *session) declare(ctx context.Context, g *Group) error {
	now := g.membership()
	if now == g.shown || g.Mapping == "" {
		return nil
	}
	if _, err := s.conn.Exec(ctx, sql.Text("owner_declare.sql", nil), pgx.QueryExecModeExec,
		g.class, int32(now), int32(g.shown)); err != nil {
		return fmt.Errorf("declare membership: %w", err)
	}
	g.shown = now
	return nil
}

// leave releases all locks of the session, and notifies the others if it held shards. Nothing is published any more.
func (s *session) leave(ctx context.Context) error {
	if !s.held {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if _, err := s.conn.Exec(ctx, sql.Text("owner_leave.sql", nil), pgx.QueryExecModeExec,
		s.Channel, Given); err != nil {
		return fmt.Errorf("release shards: %w", err)
	}
	s.Logger.Info("released all shards")
	return nil
}
