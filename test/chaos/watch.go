package main

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/test/chaos/history"
)

const (
	lookEvery = 200 * time.Millisecond
	// A transaction is held when it was open for this long and ran no statement, or ran other statements first.
	heldFor = 2 * time.Second
)

// sessions watches the relays' sessions in the database.
type sessions struct {
	mu      sync.Mutex
	held    []history.Held
	looks   int
	longest time.Duration // longest time that a statement ran
}

const look = `
select application_name, pid, left(query, 200), state like 'idle in transaction%' as idle,
       extract(epoch from clock_timestamp() - xact_start)::float8,
       extract(epoch from clock_timestamp() - query_start)::float8
from pg_stat_activity
where application_name like $1 || '%' and xact_start is not null and state <> 'idle'`

// watch looks at the sessions repeatedly until ctx ends. An unavailable database has no sessions.
func (s *sessions) watch(ctx context.Context, url, application string) {
	var conn *pgx.Conn
	defer func() {
		if conn != nil {
			_ = conn.Close(context.WithoutCancel(ctx)) // nothing is open on it
		}
	}()
	reported := map[int]bool{} // by pid: each is reported once
	for ctx.Err() == nil {
		if conn == nil || conn.IsClosed() {
			conn, _ = pgx.Connect(ctx, url) // if this fails, the next round tries again
		}
		if conn != nil {
			s.look(ctx, conn, application, reported)
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookEvery):
		}
	}
}

func (s *sessions) look(ctx context.Context, conn *pgx.Conn, application string, reported map[int]bool) {
	rows, err := conn.Query(ctx, look, application)
	if err != nil {
		return
	}
	defer rows.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	for rows.Next() {
		var name, query string
		var pid int
		var idle bool
		var transaction, statement float64
		if rows.Scan(&name, &pid, &query, &idle, &transaction, &statement) != nil {
			return
		}
		without := time.Duration((transaction - statement) * float64(time.Second)) // time before the present statement
		if idle {
			without = time.Duration(transaction * float64(time.Second))
		} else {
			s.longest = max(s.longest, time.Duration(statement*float64(time.Second)))
		}
		if without >= heldFor && !reported[pid] {
			reported[pid] = true
			s.held = append(s.held, history.Held{Session: name, For: without.Round(time.Millisecond), Query: query})
		}
	}
}
