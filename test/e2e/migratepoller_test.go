package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// TestMigrateFromPoller follows docs/migrating.md from a hand-written poller to the relay, back, and again to the
// relay, while rows are written.
func TestMigrateFromPoller(t *testing.T) {
	t.Parallel()
	b := newNATS(t, endpoint(t, "TEST_NATS_URL"))
	way := guide(t, "From a hand-written poller")
	topic := b.topic(t)
	outbox := newShape(t, way.block(t, "table"))
	env := outbox.env(b.url(), way.settings(t, "poller")...)
	theirs := func() *poller {
		return startPoller(t, outbox.Pool,
			"select id::text, event_type, aggregate_id, payload::text from outbox_events where status = 'new' and payload ->> "+
				"'n' <> '-1' order "+
				"by outbox_events.id limit 100 for update skip locked",
			"update outbox_events set status = 'sent' where id = any($1::bigint[])",
			func(ctx context.Context, id, topic, key, payload string) error {
				message := &nats.Msg{
					Subject: topic, Data: []byte(payload),
					Header: nats.Header{"message-id": {id}, "message-key": {key}},
				}
				_, err := b.js.PublishMsg(ctx, message) // has arrived when the poller marks it, and before the relay begins
				return err
			})
	}
	// The poller has given up this row.
	outbox.Exec(t, `insert into outbox_events (event_type, aggregate_id, payload, status) values ($1, 'given up',
		'{"n": 0}', 'failed')`,
		topic)
	w := startWriter(t, outbox.Pool, 1, 10, fmt.Sprintf(`insert into outbox_events (event_type, aggregate_id, payload)
		select '%s', 'k' || i %% 30, jsonb_build_object('n', i) from generate_series($1::int, $2::int) i order by i`, topic))
	old := theirs()
	old.flow()
	way.run(t, outbox, "prepare")
	old.flow()
	checkServed(t, env)
	relayed := 0
	for range 2 { // there, back, and there again
		old.stop()
		way.run(t, outbox, "hand over")
		r := startRelay(t, env)
		r.awaitReady()
		await(t, "rows are relayed", func() bool { return r.metric(`rows_relayed_total{destination="default"}`) > "0" })
		if relayed++; relayed == 2 {
			break
		}
		if code, out, problems := runCommand(t, env, "failed", "retry", "--error", "given up by the poller"); code != 0 {
			t.Errorf("failed retry: status %d:\n%s%s", code, out, problems)
		}
		await(t, "the row that the poller had given up is relayed", func() bool {
			return pgtest.Value[bool](t, outbox.Schema,
				"select relayed_at is not null from outbox_events where aggregate_id = 'given up'")
		})
		r.stop()
		way.run(t, outbox, "back")
		old = theirs()
		old.flow()
	}
	w.end()
	await(t, "all rows are relayed", func() bool {
		return pgtest.Value[int64](t, outbox.Schema, "select count(*) from outbox_events where relayed_at is null") == 0
	})
	if duplicates := checkNumbers(t, b.received(t, topic), w.rows); duplicates > 0 {
		t.Errorf("%d of %d rows came twice", duplicates, w.rows)
	}
}

// TestMigrateFromPhoenixMicro follows docs/migrating.md from PhoenixMicro's relay, on each of its tables.
func TestMigrateFromPhoenixMicro(t *testing.T) {
	t.Parallel()
	for name, ddl := range map[string]string{"A": pgtest.ShapeA, "B": pgtest.ShapeB, "C": pgtest.ShapeC} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newRabbit(t, endpoint(t, "TEST_AMQP_URL"))
			way := guide(t, "From PhoenixMicro's relay")
			topic, outbox := b.topic(t), newShape(t, ddl)
			b.bindTo(t, "phoenix_micro", topic)
			env := outbox.env(b.url(), way.settings(t, "phoenix_micro")...)
			channel := b.channel(t)
			if err := channel.Confirm(false); err != nil {
				t.Fatal(err)
			}
			theirs := func() *poller {
				return startPoller(t, outbox.Pool,
					"select id::text, topic, topic, payload::text from outbox_messages where relayed_at is null and failed_at is "+
						"null and "+
						"coalesce(attempt, 1) < 2 order by inserted_at, outbox_messages.id limit 100",
					"update outbox_messages set relayed_at = now() at time zone 'UTC' where id::text = any($1::text[])",
					func(ctx context.Context, _, topic, _, payload string) error {
						sent, err := channel.PublishWithDeferredConfirmWithContext(ctx, "phoenix_micro", topic, false, false,
							amqp091.Publishing{
								// The message has no id, because that of PhoenixMicro's relay changes with each attempt.
								DeliveryMode: amqp091.Persistent, ContentType: "application/json", Timestamp: time.Now(), Body: []byte(payload),
							})
						if err != nil {
							return err
						}
						_, err = sent.WaitContext(ctx) // has arrived before the relay begins
						return err
					})
			}
			row := "insert into outbox_messages (topic, payload, attempt, failed_at, last_error, inserted_at, updated_at) " +
				"values ($1, $2::jsonb, " +
				"$3, $4, $5, $6, $6)"
			earlier := time.Now().UTC().Add(-time.Minute)
			outbox.Exec(t, row, topic, `{"n": 0}`, 6, earlier, "connection refused", earlier) // given up because of an outage
			outbox.Exec(t, row, topic, `{"n": 1}`, 3, nil, ":timeout", earlier)               // in the middle of its attempts
			w := startWriter(t, outbox.Pool, 2, 5, fmt.Sprintf(`insert into outbox_messages (topic, payload, inserted_at,
				updated_at)
				select '%s', jsonb_build_object('n', i), clock_timestamp() at time zone 'UTC', now() at time zone 'UTC' from
				generate_series($1::int, $2::int) i order by i`, topic))
			old := theirs()
			old.flow()
			if name != "B" {
				way.run(t, outbox, "prepare")
			}
			if name == "C" {
				way.run(t, outbox, "prepare further")
			}
			checkServed(t, env)
			old.stop()
			r := startRelay(t, env)
			r.awaitReady()
			await(t, "rows are relayed", func() bool { return r.metric(`rows_relayed_total{destination="default"}`) > "0" })
			r.stop()
			old = theirs()
			old.flow()
			old.stop()
			startRelay(t, env).awaitReady()
			if code, out, problems := runCommand(t, env, "failed", "retry", "--error", "refused"); code != 0 {
				t.Errorf("failed retry: status %d:\n%s%s", code, out, problems)
			}
			w.end()
			await(t, "all rows are relayed", func() bool { return outbox.count("relayed_at is null") == 0 })
			got := b.received(t, topic)
			for i := range got {
				if got[i].headers["content-type"] != "application/json" {
					t.Fatalf("message %+v", got[i])
				}
				// rows of one second have no order there, and those that it has tried come later
				if name == "C" || got[i].number(t) < 2 {
					got[i].key = got[i].body
				}
			}
			if duplicates := checkNumbers(t, got, w.rows); duplicates > 0 {
				t.Errorf("%d of %d rows came twice", duplicates, w.rows)
			}
		})
	}
}

// poller is another program's relay: it reads rows, sends them one after the other, and marks them.
type poller struct {
	t    testing.TB
	sent chan struct{} // receives after each round that sent something
	end  context.CancelFunc
	done chan struct{}
}

func startPoller(t testing.TB, pool *pgxpool.Pool, read, mark string,
	send func(ctx context.Context, id, topic, key, payload string) error,
) *poller {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	p := &poller{t: t, sent: make(chan struct{}, 1), end: end, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for ctx.Err() == nil {
			n := 0
			err := pgx.BeginFunc(context.WithoutCancel(ctx), pool, func(tx pgx.Tx) (err error) {
				n, err = p.round(context.WithoutCancel(ctx), tx, read, mark, send)
				return err
			})
			if err != nil {
				t.Errorf("poll: %v", err)
				return
			}
			if n > 0 {
				select {
				case p.sent <- struct{}{}:
				default:
				}
			}
			<-ticker.C
		}
	}()
	t.Cleanup(p.stop)
	return p
}

func (p *poller) round(ctx context.Context, tx pgx.Tx, read, mark string,
	send func(ctx context.Context, id, topic, key, payload string) error,
) (int, error) {
	type row struct{ ID, Topic, Key, Payload string }
	rows, err := tx.Query(ctx, read)
	if err != nil {
		return 0, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	if err != nil {
		return 0, err
	}
	ids := make([]string, len(found))
	for i, r := range found {
		ids[i] = r.ID
		if err := send(ctx, r.ID, r.Topic, r.Key, r.Payload); err != nil {
			return 0, errors.Join(errors.New("send"), err)
		}
	}
	_, err = tx.Exec(ctx, mark, ids)
	return len(found), err
}

// flow waits until something has been sent.
func (p *poller) flow() {
	p.t.Helper()
	for range 2 { // the first may be an earlier one
		select {
		case <-p.sent:
		case <-time.After(patience):
			p.t.Fatal("nothing is sent")
		}
	}
}

func (p *poller) stop() {
	p.end()
	<-p.done
}
