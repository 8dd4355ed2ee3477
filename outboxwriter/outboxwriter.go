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
	// OUTBOX_COLUMNS says to the relay. A column that is mapped to "-" is absent.
	Columns map[string]string
	// Bytes says that the payload's column is a bytea, which holds any bytes. Otherwise the payload is sent as text.
	Bytes bool
}

// perStatement is how many messages a statement inserts. Six parameters each are well below PostgreSQL's 65,535.
const perStatement = 1000

// Insert inserts messages, as the function of this name does.
func (t Table) Insert(ctx context.Context, tx Tx, messages ...Message) error {
	for len(messages) > 0 {
		n := min(len(messages), perStatement)
		query, args, err := t.Statement(messages[:n]...)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, query, args...); err != nil {
			return fmt.Errorf("insert into the outbox: %w", err)
		}
		messages = messages[n:]
	}
	return nil
}

// ErrMessage is the cause of an error about a message that cannot be inserted. Nothing has been sent then.
var ErrMessage = errors.New("not a message for this outbox")

// columns are the columns that an application writes, by their names in the recommended table.
var columns = [...]string{"topic", "payload", "id", "key", "headers", "available_at"}

// values returns a message's values in the order of columns, nil for those that are left to the column's default.
func (t Table) values(m *Message) (v [len(columns)]any, err error) {
	if m.Topic == "" {
		return v, errors.New("it has no topic")
	}
	v[0] = m.Topic
	switch {
	case m.Payload == nil:
	case t.Bytes:
		v[1] = m.Payload
	default:
		v[1] = string(m.Payload) // drivers send bytes to a JSON column as those of a bytea
	}
	if m.ID != "" {
		v[2] = m.ID
	}
	if m.Key != "" {
		v[3] = m.Key
	}
	if len(m.Headers) > 0 {
		object, err := json.Marshal(m.Headers)
		if err != nil {
			return v, fmt.Errorf("headers: %w", err)
		}
		v[4] = string(object)
	}
	if !m.NotBefore.IsZero() {
		v[5] = m.NotBefore.UTC() // a column without a time zone holds UTC
	}
	return v, nil
}

// Statement returns the statement that inserts messages, and its arguments, for clients with a transaction of their own
// kind. It takes at most 10,000 messages. A column for which no message has a value is left out.
func (t Table) Statement(messages ...Message) (query string, args []any, err error) {
	if len(messages) == 0 || len(messages) > 10_000 {
		return "", nil, fmt.Errorf("%w: %d messages in a statement; give 1 to 10,000", ErrMessage, len(messages))
	}
	rows := make([][len(columns)]any, len(messages))
	var used [len(columns)]bool
	for i := range messages {
		if rows[i], err = t.values(&messages[i]); err != nil {
			return "", nil, fmt.Errorf("%w: message %d: %w", ErrMessage, i+1, err)
		}
		for j, value := range rows[i] {
			used[j] = used[j] || value != nil
		}
	}
	var names []string
	var taken []int // indexes of columns
	for j, name := range columns {
		if !used[j] {
			continue
		}
		if mapped, ok := t.Columns[name]; ok {
			name = mapped
		}
		if name == "-" {
			return "", nil, fmt.Errorf("%w: the table has no column for %s", ErrMessage, columns[j])
		}
		names, taken = append(names, quote(name)), append(taken, j)
	}
	lines, places := make([]string, len(rows)), make([]string, len(taken))
	for i, row := range rows {
		for k, j := range taken {
			if places[k] = "default"; row[j] != nil {
				args = append(args, row[j])
				places[k] = fmt.Sprintf("$%d", len(args))
			}
		}
		lines[i] = "(" + strings.Join(places, ", ") + ")"
	}
	query = fmt.Sprintf("insert into %s (%s) values "+
		"%s", t.quoted(), strings.Join(names, ", "), strings.Join(lines, ", "))
	return query, args, nil
}

// quoted returns the quoted name of the table.
func (t Table) quoted() string {
	first, second, both := strings.Cut(cmp.Or(t.Name, "outbox_messages"), ".")
	if !both {
		return quote(first)
	}
	return quote(first) + "." + quote(second)
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
