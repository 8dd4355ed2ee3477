package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// steady writes rows for several topics in turns, at a steady rate, until it is stopped.
type steady struct {
	rows   int // number of rows written, when it has stopped
	keys   int
	cancel context.CancelFunc
	done   chan error
}

// startSteady begins to write rows. Row n has the key n modulo keys, and the rows of a key have the same topic.
func (l *lab) startSteady(ctx context.Context, database string, topics []string) (*steady, error) {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return nil, fmt.Errorf("connect writer: %w", err)
	}
	running, cancel := context.WithCancel(ctx)
	s := &steady{keys: l.keys / len(topics) * len(topics), cancel: cancel, done: make(chan error, 1)}
	go func() {
		defer conn.Close(context.WithoutCancel(ctx))
		s.done <- s.write(ctx, running, conn, topics)
	}()
	return s, nil
}

const severalTopics = `insert into outbox_messages (topic, key, payload)
select ($1::text[])[1 + i % cardinality($1)], 'order-' || i % $2::int, jsonb_build_object('n', lpad(i::text, 9, '0'),
'data',
rpad(md5(i::text), 479, 'x'))
from generate_series($3::int, $3::int + $4::int - 1) i order by i`

func (s *steady) write(ctx, running context.Context, conn *pgx.Conn, topics []string) error {
	const pace = 20 * time.Millisecond
	began, each := time.Now(), int(clusterRate*pace/time.Second)
	for {
		if err := pause(running, time.Until(began.Add(time.Duration(s.rows/each)*pace))); err != nil {
			return ctx.Err()
		}
		if _, err := conn.Exec(ctx, severalTopics, topics, s.keys, s.rows, each); err != nil {
			return fmt.Errorf("insert: %w", err)
		}
		s.rows += each
	}
}

// stop returns when no more rows are written.
func (s *steady) stop() error {
	s.cancel()
	return <-s.done
}
