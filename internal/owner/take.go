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
// of two kinds never become owners side by side. contested reports that another replica is taking shards.
func (s *session) take(ctx context.Context, g *Group, l locks) (_ locks, contested bool, err error) {
	limited, cancel := context.WithTimeout(ctx, s.TTL-s.margin())
	defer cancel()
	var alone bool
	if err := s.conn.QueryRow(limited, sql.Text("owner_guard.sql", nil), pgx.QueryExecModeExec,
		g.class).Scan(&alone); err != nil {
		return l, false, fmt.Errorf("guard shards: %w", err)
	}
	if !alone {
		return l, true, nil
	}
	defer func() {
		if _, failed := s.conn.Exec(limited, sql.Text("owner_unguard.sql", nil), pgx.QueryExecModeExec,
			g.class); failed != nil && err == nil {
			err = fmt.Errorf("end guard of shards: %w", failed)
		}
	}()
	found, err := s.list(limited)
	if err != nil {
		return l, false, err
	}
	if l = g.read(found[g.class], s.Shards); l.foreign != nil {
		return l, false, nil
	}
	before := l.mine
	// The rows hold the error of the query, too.
	rows, _ := s.conn.Query(limited, sql.Text("owner_take.sql", nil), pgx.QueryExecModeExec,
		g.class, l.wanted(s.order))
	got, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return l, false, fmt.Errorf("take shards: %w", err)
	}
	for _, shard := range got {
		l.mine.Add(shard)
		l.taken.Add(shard)
	}
	if len(got) > 0 {
		s.held = true
		s.Logger.Info("acquired shards", s.about(g, "shards", len(got), "owned", l.mine.Len(), "of", s.Shards,
			"before", before.Len(), "replicas", l.replicas)...)
	}
	return l, false, nil
}

// give releases the leaving shards that have no rows in flight any more.
func (s *session) give(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.TTL)
	defer cancel()
	for _, g := range s.relayed {
		s.mu.Lock()
		shards := g.left
		s.mu.Unlock()
		if shards == (Set{}) {
			continue
		}
		if _, err := s.conn.Exec(ctx, sql.Text("owner_give.sql", nil), pgx.QueryExecModeExec,
			g.class, shards.Shards(), s.Channel, Given); err != nil {
			return fmt.Errorf("release shards: %w", err)
		}
		// The engines may have reported them again meanwhile. That must not release them if this replica takes them
		// again.
		s.update(func() {
			g.state.Leaving, g.left = g.state.Leaving.Without(shards), g.left.Without(shards)
		})
		s.Logger.Info("released shards", s.about(g, "shards", shards.Len())...)
	}
	return nil
}

// declare shows the other replicas when this one can no longer publish to the destinations of a group, or can again.
func (s *session) declare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.TTL-s.margin())
	defer cancel()
	for _, g := range s.relayed {
		now := g.shown
		if now.Able = g.canPublish(); now == g.shown {
			continue
		}
		if _, err := s.conn.Exec(ctx, sql.Text("owner_declare.sql", nil), pgx.QueryExecModeExec,
			g.class, now.number(), g.shown.number()); err != nil {
			return fmt.Errorf("declare membership: %w", err)
		}
		g.shown = now
	}
	return nil
}

// leave releases all locks of the session, and notifies the others if it held shards.
func (s *session) leave(ctx context.Context) error {
	held := false
	s.update(func() {
		for _, g := range s.relayed {
			held = held || g.state.Holds()
			g.state.Owned, g.state.Leaving = Set{}, Set{}
		}
	})
	if !held {
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
