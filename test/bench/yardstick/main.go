// Command yardstick is the least code that relays an outbox: it reads a batch, publishes it and marks it, with the
// three stages overlapped. It has no retries, no order per key inside a batch, no ownership and only minimal error
// handling. Its rate is therefore about the limit with which a real relay is compared, on the same machine in the same
// minutes. It ends when it finds no more rows, unless it is started to poll. When polling it misses rows that commit
// late.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

type message struct {
	id      [16]byte
	text    string // the id
	key     string
	payload []byte
	headers []header
	seq     int64
}

type header struct{ key, value string }

// publisher returns when the broker has acknowledged the whole batch.
type publisher interface {
	publish(context.Context, []message) error
	close()
}

const (
	fetch = `select id, id::text, key, payload, headers, seq from outbox_messages
where relayed_at is null and failed_at is null and seq > $1 order by seq limit $2`
	mark = `update outbox_messages set relayed_at = now() where id = any($1::uuid[]) and relayed_at is null`
)

// depth is the number of batches that wait between two stages.
const depth = 2

func main() {
	database := flag.String("database", "", "URL of PostgreSQL")
	url := flag.String("url", "", "URL of the broker: kafka://, nats:// or amqp://")
	topic := flag.String("topic", "", "topic, subject or queue")
	partitions := flag.Int("partitions", 6, "of the Kafka topic")
	batch := flag.Int("batch", 1000, "rows in a batch")
	poll := flag.Duration("poll", 0,
		"pause after each read that finds less than a batch; 0: end when there are no more rows")
	flag.Parse()
	if err := run(context.Background(), *database, *url, *topic, *partitions, *batch, *poll); err != nil {
		fmt.Fprintln(os.Stderr, "yardstick:", err)
		os.Exit(1)
	}
}

func open(ctx context.Context, url, topic string, partitions, batch int) (publisher, error) {
	switch scheme, rest, _ := strings.Cut(url, "://"); scheme {
	case "kafka":
		return newKafka(ctx, rest, topic, partitions)
	case "nats":
		return newNATS(url, topic, batch)
	case "amqp":
		return newRabbit(url, topic, batch)
	default:
		return nil, fmt.Errorf("unknown scheme %q", scheme)
	}
}

func run(ctx context.Context, database, url, topic string, partitions, size int, poll time.Duration) error {
	reader, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer reader.Close(ctx)
	marker, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer marker.Close(ctx)
	out, err := open(ctx, url, topic, partitions, size)
	if err != nil {
		return err
	}
	defer out.close()

	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	fetched, published := make(chan []message, depth), make(chan []message, depth)
	go func() {
		defer close(fetched)
		for last := int64(0); ; {
			messages, err := read(ctx, reader, last, size)
			if err != nil {
				fail(err)
				return
			}
			if len(messages) == 0 && poll == 0 {
				return
			}
			if len(messages) > 0 {
				last = messages[len(messages)-1].seq
				fetched <- messages
			}
			if len(messages) < size {
				<-time.After(poll)
			}
		}
	}()
	go func() {
		defer close(published)
		for messages := range fetched {
			if err := out.publish(ctx, messages); err != nil {
				fail(err)
				continue // empty the channel, so that the reader ends
			}
			published <- messages
		}
	}()
	for messages := range published {
		ids := make([][16]byte, len(messages))
		for i := range messages {
			ids[i] = messages[i].id
		}
		if _, err := marker.Exec(ctx, mark, ids); err != nil {
			fail(err)
		}
	}
	return context.Cause(ctx)
}

// read returns the next batch. A plain cursor is enough because nothing else writes.
func read(ctx context.Context, conn *pgx.Conn, last int64, size int) ([]message, error) {
	rows, err := conn.Query(ctx, fetch, last, size)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	messages := make([]message, 0, size)
	for rows.Next() {
		var m message
		var headers []byte
		if err := rows.Scan(&m.id, &m.text, &m.key, &m.payload, &headers, &m.seq); err != nil {
			return nil, err
		}
		var decoded map[string]string
		if err := json.Unmarshal(headers, &decoded); err != nil {
			return nil, err
		}
		for key, value := range decoded {
			m.headers = append(m.headers, header{key, value})
		}
		messages = append(messages, m)
	}
	return messages, rows.Err()
}
