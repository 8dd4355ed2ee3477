package owner

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/sql"
)

// Patience is the multiple of the time to live after which a replica releases its shards to others although that has a
// price: when it cannot publish and another replica can, or when rows that it has published are locked. A broker's
// restart is over by then.
const Patience = 3

// declare shows the other replicas when this one can no longer publish to the destinations of a group, or can again.
func (s *session) declare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.TTL-s.margin())
	defer cancel()
	for _, p := range s.parts {
		able := p.canPublish()
		if able == p.able {
			continue
		}
		if _, err := s.conn.Exec(ctx, sql.Text("owner_declare.sql", nil), pgx.QueryExecModeExec,
			p.class, p.membership(able), p.membership(p.able)); err != nil {
			return fmt.Errorf("declare membership: %w", err)
		}
		p.able = able
	}
	return nil
}

// mayGive reports whether shards beyond this replica's share are to be released now.
func (s *session) mayGive(p *part, l locks) bool {
	if !l.apart() {
		p.apart = time.Time{}
		return true
	}
	if p.apart.IsZero() {
		p.apart = time.Now()
	}
	return time.Since(p.apart) >= Patience*s.TTL
}
