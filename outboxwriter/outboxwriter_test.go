package outboxwriter_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/outboxwriter"
	ddl "github.com/outbox-relay/outbox-relay/sql"
)

// row is a row as the database shows it, in the order of insertion.
type row struct {
	Topic, Key, Payload, Headers string
}

// inserted runs a transaction of each kind and returns the rows that it has left.
func inserted(t *testing.T, s *pgtest.Schema, query string, insert func(outboxwriter.Tx) error) map[string][]row {
	t.Helper()
	db := stdlib.OpenDBFromPool(s.Pool)
	t.Cleanup(func() { _ = db.Close() })
	all := map[string][]row{}
	for kind, transact := range map[string]func() error{
		"pgx": func() error {
			return pgx.BeginFunc(t.Context(), s.Pool, func(tx pgx.Tx) error { return insert(outboxwriter.Pgx(tx)) })
		},
		"database/sql": func() error {
			tx, err := db.BeginTx(t.Context(), &sql.TxOptions{})
			if err != nil {
				return err
			}
			if err := insert(tx); err != nil {
				return errors.Join(err, tx.Rollback())
			}
			return tx.Commit()
		},
	} {
		if err := transact(); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		rows, err := s.Pool.Query(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		if all[kind], err = pgx.CollectRows(rows, pgx.RowToStructByPos[row]); err != nil {
			t.Fatal(err)
		}
		s.Exec(t, "truncate "+strings.Fields(query[strings.Index(query, " from ")+6:])[0])
	}
	return all
}

// Messages arrive in the recommended table in the order given, whatever they have, with both kinds of transactions.
// There are more than one statement takes.
func TestRecommendedTable(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, ddl.Schema(ddl.Table{Name: "outbox_messages"}))
	messages := []outboxwriter.Message{
		{
			Topic: "orders.placed", Key: "ada", Payload: []byte(`{"cents": 4200}`),
			Headers: map[string]string{"correlation-id": "é<&>"},
		},
		{Topic: "audit", Payload: []byte(`[1, null]`), ID: "58003216-e6cc-4362-96b0-8d9258c45046"},
	}
	want := []row{
		{"orders.placed", "ada", `{"cents": 4200}`, `{"correlation-id": "é<&>"}`},
		{"audit", "none", `[1, null]`, `{}`},
	}
	for i := range 2500 {
		body, _ := json.Marshal(i)
		messages = append(messages, outboxwriter.Message{Topic: "many", Key: fmt.Sprint(i), Payload: body})
		want = append(want, row{"many", fmt.Sprint(i), string(body), "{}"})
	}
	query := "select topic, coalesce(key, 'none'), payload::text, headers::text from outbox_messages order by seq"
	all := inserted(t, s, query,
		func(tx outboxwriter.Tx) error { return outboxwriter.Insert(t.Context(), tx, messages...) })
	for kind, rows := range all {
		if len(rows) != len(want) {
			t.Fatalf("%s: %d rows, want %d", kind, len(rows), len(want))
		}
		for i := range want {
			if rows[i] != want[i] {
				t.Fatalf("%s: row %d is %+v, want %+v", kind, i, rows[i], want[i])
			}
		}
	}
}

// A table with names of its own, a schema, a bytea and a time without a zone.
func TestMappedTable(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, `create table "Events" (n bigint generated always as identity, type text, aggregate text, body bytea,
		due timestamp, sent_at timestamptz)`)
	table := outboxwriter.Table{
		Name: s.Name + ".Events", Bytes: true,
		Columns: map[string]string{
			"topic": "type", "key": "aggregate", "payload": "body", "available_at": "due",
		},
	}
	at := time.Date(2026, 11, 26, 12, 0, 0, 0, time.FixedZone("", 5*3600))
	all := inserted(t, s, `select type, coalesce(aggregate, 'none'), coalesce(encode(body, 'hex'), 'null'),
		coalesce(due::text, 'now') from "Events" order by n`,
		func(tx outboxwriter.Tx) error {
			return table.Insert(t.Context(), tx,
				outboxwriter.Message{Topic: "a", Key: "k", Payload: []byte{0, 255}, NotBefore: at},
				outboxwriter.Message{Topic: "b"})
		})
	for kind, rows := range all {
		want := []row{{"a", "k", "00ff", "2026-11-26 07:00:00"}, {"b", "none", "null", "now"}}
		if fmt.Sprint(rows) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", kind, rows, want)
		}
	}
}

// A message without a topic is refused before anything is sent. What PostgreSQL refuses is its error, and nothing is
// left.
func TestRefusedMessages(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, ddl.Schema(ddl.Table{Name: "outbox_messages"}))
	good := outboxwriter.Message{Topic: "a", Payload: []byte("{}")}
	bad := outboxwriter.Message{Topic: "a", Payload: []byte("no JSON")}
	err := outboxwriter.Insert(t.Context(), nil, good, outboxwriter.Message{Payload: []byte("{}")})
	if !errors.Is(err, outboxwriter.ErrMessage) || !strings.Contains(err.Error(), "message 2: it has no topic") {
		t.Errorf("no topic: %v", err)
	}
	err = pgx.BeginFunc(t.Context(), s.Pool, func(tx pgx.Tx) error {
		return outboxwriter.Insert(t.Context(), outboxwriter.Pgx(tx), good, bad)
	})
	if err == nil || !strings.Contains(err.Error(), "insert into the outbox") {
		t.Errorf("no JSON: %v", err)
	}
	if n := pgtest.Value[int](t, s, "select count(*)::int from outbox_messages"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}
