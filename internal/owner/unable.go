package owner

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/sql"
)

// Patience is the multiple of the time to live after which a replica releases its shards to others although that has a price:
// when it cannot publish and another replica can, or when rows that it has published are locked. A broker's restart is over by
// then.
const Patience = 3

// canPublish reports whether this replica can publish at present.
func (o *Owner) canPublish() bool { return o.Unable == nil || o.Unable() == nil }

// declare shows the other replicas when this one can no longer publish, or can again.
func (s *session) declare(ctx context.Context) error {
	able := s.canPublish()
	if able == s.able {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.TTL-s.margin())
	defer cancel()
	if _, err := s.conn.Exec(ctx, sql.Text("owner_declare.sql", nil), pgx.QueryExecModeExec, s.class,
		membership{s.kind, able}.number(), membership{s.kind, s.able}.number()); err != nil {
		return fmt.Errorf("declare membership: %w", err)
	}
	s.able = able
	return nil
}

// mayGive reports whether shards beyond this replica's share are to be released now.
func (s *session) mayGive(l locks) bool {
	if !l.apart() {
		s.apart = time.Time{}
		return true
	}
	if s.apart.IsZero() {
		s.apart = time.Now()
	}
	return time.Since(s.apart) >= Patience*s.TTL
}
