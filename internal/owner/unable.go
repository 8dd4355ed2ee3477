package owner

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/sql"
)

// Patience is after how many times the time to live a replica gives its shards to others although that has a price: when it
// cannot publish and another one can, or when rows are locked that it has published. A broker's restart is over by then.
const Patience = 3

// canPublish reports whether this replica can publish at present.
func (o *Owner) canPublish() bool { return o.Unable == nil || o.Unable() == nil }

// declare lets the other replicas know when this one can publish no longer, or again.
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

// mayGive reports whether what is more than this replica's share is to be given back now.
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
