// Package outboxwriter inserts messages into an outbox table, in the transaction of the business change:
//
//	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//		... the change ...
//		return outboxwriter.Insert(ctx, outboxwriter.Pgx(tx), outboxwriter.Message{
//			Topic: "orders.placed", Key: "ada", Payload: []byte(`{"cents": 4200}`),
//		})
//	})
//
// A transaction of database/sql is given as it is; pgx's and those of libraries on it through [Pgx]. [Insert] writes
// into the table that "outbox-relay schema" prints. A [Table] describes any other.
//
// The package needs nothing but the standard library.
package outboxwriter

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Message is one row to be relayed.
type Message struct {
	// Topic names where the message goes: a Kafka topic, a NATS subject, a RabbitMQ queue or routing key. Required.
	Topic string
	// Key is what must stay in order, such as the customer or the order: messages with the same key are relayed one
	// after another. A message without a key, as with an empty string, keeps no order.
	Key string
	// Payload is the body. If the column holds JSON, as in the recommended table, it must be JSON: PostgreSQL refuses
	// anything else, and the transaction fails. Nil leaves the column to its default, usually NULL: an empty body, on
	// Kafka a tombstone. The recommended table refuses that.
	Payload []byte
	// Headers travel with the message; "traceparent" and "correlation-id" belong here.
	Headers map[string]string
	// ID is the message id. If it is empty, the column's default makes one.
	ID string
	// NotBefore delays the message until a time. It needs the column available_at. Such a message keeps no order.
	NotBefore time.Time
}

// Tx is a transaction of database/sql, or anything else that can execute a statement as it does. [Insert] does not
// commit: a message is relayed if the transaction is.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Pgx makes a [Tx] of a transaction of pgx. The type of the result is pgx's, which this package does not need to know.
func Pgx[Result any](tx interface {
	Exec(ctx context.Context, query string, args ...any) (Result, error)
},
) Tx {
	return execFunc(func(ctx context.Context, query string, args ...any) error {
		_, err := tx.Exec(ctx, query, args...)
		return err
	})
}

type execFunc func(ctx context.Context, query string, args ...any) error

func (f execFunc) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return nil, f(ctx, query, args...)
}

// Insert inserts messages into the recommended table, outbox_messages, in the order given. It sends one statement for
// each thousand messages. After an error the transaction must be rolled back; PostgreSQL allows nothing else.
func Insert(ctx context.Context, tx Tx, messages ...Message) error {
	return Table{}.Insert(ctx, tx, messages...)
}

// A Table describes an outbox table. The zero value is the recommended one.
type Table struct {
	// Name may have a schema, as in "shop.events"; outbox_messages by default.
	Name string
	// Columns are the table's names for id, topic, key, payload, headers and available_at, where they differ: what
	// OUTBOX_COLUMNS says to the relay. The table needs a column only for what some message has.
	Columns map[string]string
	// Bytes says that the payload's column is a bytea, which holds any bytes. Otherwise the payload is sent as text.
	Bytes bool
}

// perStatement is how many messages a statement inserts. Six parameters each are well below PostgreSQL's 65,535.
const perStatement = 1000

// Insert inserts messages, as the function of this name does.
func (t Table) Insert(ctx context.Context, tx Tx, messages ...Message) error {
	for some := range slices.Chunk(messages, perStatement) {
		query, args, err := t.Statement(some...)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, query, args...); err != nil {
			return fmt.Errorf("insert into the outbox: %w", err)
		}
	}
	return nil
}

// ErrMessage is the cause of an error about a message that cannot be inserted. Nothing has been sent then.
var ErrMessage = errors.New("not a message for this outbox")

// columns are the columns that an application writes, by their names in the recommended table.
var columns = [...]string{"topic", "payload", "id", "key", "headers", "available_at"}

// values returns a message's values by column, without those that are left to the column's default.
func (t Table) values(m *Message) map[string]any {
	v := map[string]any{"topic": m.Topic}
	switch {
	case m.Payload == nil:
	case t.Bytes:
		v["payload"] = m.Payload
	default:
		v["payload"] = string(m.Payload) // drivers send bytes to a JSON column as those of a bytea
	}
	if m.ID != "" {
		v["id"] = m.ID
	}
	if m.Key != "" {
		v["key"] = m.Key
	}
	if len(m.Headers) > 0 {
		object, _ := json.Marshal(m.Headers) // texts can always be written
		v["headers"] = string(object)
	}
	if !m.NotBefore.IsZero() {
		v["available_at"] = m.NotBefore.UTC() // a column without a time zone holds UTC
	}
	return v
}

// Statement returns the statement that inserts messages, and its arguments, for clients with a transaction of their own
// kind. It takes at least one message, and at most 10,000. A column for which no message has a value is left out.
func (t Table) Statement(messages ...Message) (query string, args []any, err error) {
	rows, used := make([]map[string]any, len(messages)), map[string]bool{}
	for i := range messages {
		if messages[i].Topic == "" {
			return "", nil, fmt.Errorf("%w: message %d: it has no topic", ErrMessage, i+1)
		}
		rows[i] = t.values(&messages[i])
		for name := range rows[i] {
			used[name] = true
		}
	}
	var taken, names, lines []string
	for _, name := range columns {
		if used[name] {
			taken, names = append(taken, name), append(names, quote(cmp.Or(t.Columns[name], name)))
		}
	}
	for _, row := range rows {
		var places []string
		for _, name := range taken {
			if value, given := row[name]; given {
				args = append(args, value)
				places = append(places, fmt.Sprintf("$%d", len(args)))
			} else {
				places = append(places, "default")
			}
		}
		lines = append(lines, "("+strings.Join(places, ", ")+")")
	}
	table := strings.ReplaceAll(quote(cmp.Or(t.Name, "outbox_messages")), ".", `"."`) // with its schema
	query = "insert into " + table + " (" + strings.Join(names, ", ") + ") values " + strings.Join(lines, ", ")
	return query, args, nil
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
