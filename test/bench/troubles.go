package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/test/testkit"
)

// trouble is one kind of trouble.
type trouble struct {
	name      string
	numbers   []int // numbers of keys or topics
	broker    string
	settings  []string
	topic     string // topic of further rows of keys in trouble; the healthy one if it is empty
	begins    func(context.Context, *site) error
	ends      func(context.Context, *site) error // ends the trouble; nil if it lasts
	mostEnded int                                // largest number of keys or topics for which it ends the trouble
	shows     string                             // metric that counts the known ones
}

var troubles = []trouble{
	{
		name: "keys of failed rows", numbers: []int{1, 100, 10_000, 100_000},
		settings: []string{"OUTBOX_ON_FAILED=block"},
		begins:   failedKeys, ends: discardFailed, mostEnded: 100_000,
	},
	{
		name: "keys held by a missing topic", numbers: []int{1, 100, 10_000, 100_000}, topic: missing,
		begins: heldKeys, ends: makeTopic, mostEnded: 100_000, shows: "blocked_keys",
	},
	{
		name: "keys refused", numbers: []int{1, 100, 10_000, 100_000}, broker: "kafka",
		settings: []string{"OUTBOX_KAFKA_PARTITION_HEADER=partition", "OUTBOX_MAX_ATTEMPTS=1000000"},
		begins:   refusedKeys,
		shows:    "blocked_keys",
	},
	{
		name: "topics missing", numbers: []int{1, 100, 10_000}, begins: missingTopics, ends: makeTopics, mostEnded: 100,
		shows: "blocked_keys",
	},
}

// missing is the prefix of the names of topics that do not exist.
const missing = "bench-missing"

// site is where the rows in trouble are made.
type site struct {
	*outbox
	broker broker
	topic  string
	number int      // number of keys or topics in trouble
	next   int      // number of the next row without trouble
	made   []string // topics
}

func (s *site) clean(ctx context.Context) error {
	var errs []error
	for _, topic := range s.made {
		errs = append(errs, s.broker.Remove(context.WithoutCancel(ctx), topic))
	}
	return errors.Join(errs...)
}

// head inserts the first rows of keys in trouble. These rows have separate keys, and numbers beyond those of the other
// rows. A relay fails up to a batch of them at a time.
const head = `insert into outbox_messages (topic, key, payload, headers, failed_at, attempt, last_error)
	select replace($2, '%d', i::text), 'bad-' || i, jsonb_build_object('n', (900000000 + i)::text), $3::jsonb,
	$4::timestamptz + i / 1000 *
	interval '1 ms', $5, $6 from generate_series(1, $1::int) i`

func (s *site) heads(ctx context.Context, topic, headers string, failed any, attempt int, text any) error {
	_, err := s.conn.Exec(ctx, head, s.number, topic, headers, failed, attempt, text)
	return err
}

// followers writes a further row after each head, for the healthy topic.
func (s *site) followers(ctx context.Context) error {
	_, err := s.conn.Exec(ctx, `insert into outbox_messages (topic, key, payload)
		select $2, 'bad-' || i, jsonb_build_object('n', (910000000 + i)::text) from generate_series(1, $1::int)
		i`, s.number, s.topic)
	return err
}

func failedKeys(ctx context.Context, s *site) error {
	return errors.Join(s.heads(ctx, s.topic, "{}", time.Now().Add(-time.Hour), 6, "refused"), s.followers(ctx))
}

func heldKeys(ctx context.Context, s *site) error {
	return errors.Join(s.heads(ctx, s.topicNamed(missing), "{}", nil, 1, nil), s.followers(ctx))
}

func refusedKeys(ctx context.Context, s *site) error {
	return errors.Join(s.heads(ctx, s.topic, `{"partition": "9999"}`, nil, 1, nil), s.followers(ctx))
}

func missingTopics(ctx context.Context, s *site) error {
	return errors.Join(s.heads(ctx, s.topicNamed(missing+"-%d"), "{}", nil, 1, nil), s.followers(ctx))
}

// topicNamed gives a missing topic a name that is unique to this run.
func (s *site) topicNamed(name string) string {
	return strings.Replace(name, missing, missing+"-"+strings.TrimPrefix(s.topic, "bench-"), 1)
}

// discardFailed deletes the failed rows, so that their keys continue.
func discardFailed(ctx context.Context, s *site) error {
	_, err := s.conn.Exec(ctx, "delete from outbox_messages where failed_at is not null")
	return err
}

// makeTopic makes the topic that was missing.
func makeTopic(ctx context.Context, s *site) error { return s.create(ctx, s.topicNamed(missing)) }

// makeTopics makes all topics that were missing.
func makeTopics(ctx context.Context, s *site) error {
	for i := range s.number {
		if err := s.create(ctx, s.topicNamed(fmt.Sprint(missing, "-", i+1))); err != nil {
			return err
		}
	}
	return nil
}

func (s *site) create(ctx context.Context, topic string) error {
	if err := s.broker.create(ctx, topic); err != nil {
		return err
	}
	s.made = append(s.made, topic)
	return nil
}

// awaitTrouble waits until the relay has met the rows in trouble, all but one in a hundred: of many some are always
// being tried.
func (s *site) awaitTrouble(ctx context.Context, relay *program, t trouble) error {
	if t.shows == "" {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, 4*patience)
	defer cancel()
	known := 0.0
	err := testkit.Until(limited, 200*time.Millisecond, func() (bool, error) {
		m, err := relay.Metrics(ctx)
		if err != nil {
			return false, relay.fail(err)
		}
		known = m.Sum(t.shows)
		return known >= float64(s.number-s.number/100), nil
	})
	if err != nil {
		return fmt.Errorf("the relay knows of %.0f of %d: %w", known, s.number, err)
	}
	return nil
}

// mixed inserts rows without trouble, and after each twentieth one a row of a key in trouble.
const mixed = `insert into outbox_messages (topic, key, payload)
	select case when bad then $5 else $2 end, case when bad then 'bad-' || 1 + i / 20 % $4::int else 'order-' || i %
	$3::int end,
		jsonb_build_object('n', lpad((i + case when bad then 920000000 else 0 end)::text, 9, '0'),
			'data', rpad(md5(i::text), 479, 'x'))
	from generate_series($6::int, $6::int + $1::int - 1) i
	cross join lateral (select false as bad union all select true where $4::int > 0 and i % 20 = 0) kinds order by i`

// trickle inserts 25 rows of keys in trouble per second until it is stopped.
func (s *site) trickle(ctx context.Context, t trouble) (stop func() error) {
	if s.number == 0 {
		return func() error { return nil }
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		conn, err := pgx.Connect(ctx, s.url)
		if err != nil {
			done <- fmt.Errorf("connect: %w", err)
			return
		}
		defer conn.Close(context.WithoutCancel(ctx))
		for n := 0; err == nil && pause(ctx, 40*time.Millisecond) == nil; n++ {
			_, err = conn.Exec(ctx,
				"insert into outbox_messages (topic, key, payload) values ($1, $2, jsonb_build_object('n', $3::text))",
				s.topicOf(t), fmt.Sprint("bad-", 1+n%s.number), fmt.Sprint(930_000_000+n))
		}
		if ctx.Err() != nil {
			err = nil
		}
		done <- err
	}()
	return func() error {
		cancel()
		return <-done
	}
}

// topicOf returns the topic of further rows in trouble.
func (s *site) topicOf(t trouble) string {
	if t.topic == missing {
		return s.topicNamed(missing)
	}
	return s.topic
}

// keyOf returns a function that returns the key of a row without trouble by its number. Each other row has a key of its
// own.
func keyOf(keys int) func(row int) int {
	return func(row int) int {
		if row >= 900_000_000 {
			return -row
		}
		return row % keys
	}
}

// drain commits rows at once and waits until the rows without trouble are relayed.
func (s *site) drain(ctx context.Context, rows, keys int, t trouble) (time.Duration, error) {
	var base int64 // from the sequence, since the table's tuples are counted
	const last = "select coalesce(pg_sequence_last_value(pg_get_serial_sequence('outbox_messages', 'seq')), 0)"
	if err := s.conn.QueryRow(ctx, last).Scan(&base); err != nil {
		return 0, err
	}
	if _, err := s.conn.Exec(ctx, mixed, rows, s.topic, keys, s.number, s.topicOf(t), s.next); err != nil {
		return 0, fmt.Errorf("fill: %w", err)
	}
	s.next += rows
	started := time.Now()
	limited, cancel := context.WithTimeout(ctx, 4*patience)
	defer cancel()
	err := testkit.Until(limited, 50*time.Millisecond, func() (bool, error) {
		var relayed bool
		err := s.conn.QueryRow(limited, `select not exists (select from (select 1 from outbox_messages
			where relayed_at is null and failed_at is null and seq > $1 and key like 'order-%'
			order by seq desc limit 1) last)`, base).Scan(&relayed)
		return relayed, err
	})
	if err != nil {
		return 0, fmt.Errorf("rows without trouble are not relayed: %w", err)
	}
	return time.Since(started), nil
}
