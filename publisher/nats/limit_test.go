package nats_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/nats"
)

// large returns a message of 200 KB.
func large(topic string) []publisher.Message {
	m := hotRows(topic, 1, 1)
	m[0].Payload = make([]byte, 200<<10)
	return m
}

// takes publishes a large message until it is accepted. It may wait, but it must not fail for good.
func takes(t *testing.T, p *nats.Publisher, topic string) {
	t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for ctx := timely(t); ; <-again.C {
		call, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := p.Publish(call, large(topic))[0]
		cancel()
		switch class := publisher.ClassOf(err); {
		case class == publisher.Accepted:
			return
		case class == publisher.Permanent, class == publisher.Refused, ctx.Err() != nil:
			t.Fatal(err)
		}
	}
}

// awaitLimit waits until the server tells new clients that it takes messages of the given size.
func awaitLimit(t *testing.T, url string, size int64) {
	t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for ctx := timely(t); ; <-again.C {
		nc, err := client.Connect(url)
		if err == nil {
			_ = nc.Flush() // the account's limit comes after that of the server
			took := nc.MaxPayload()
			if nc.Close(); took >= size {
				return
			}
		}
		if ctx.Err() != nil {
			t.Fatal("the limit does not change")
		}
	}
}

// A limit that was raised, of the server or of the account, is learned before a message fails for it.
func TestRaisedLimitIsLearned(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]func(limit int) string{
		"server": func(limit int) string { return fmt.Sprintf("max_payload: %d", limit) },
		"account": func(limit int) string {
			return fmt.Sprintf(`accounts { A { jetstream: enabled, limits: {max_payload: %d}, users: [{user: u, password: p}] } }`, limit)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startServer(t, t.TempDir(), settings(64<<10))
			url := "nats://u:p@" + server.address
			createStream(t, url)
			p := open(t, nats.Config{Servers: []string{server.address}, Auth: login("u", "p")})
			accepts(t, p, "a.b")
			for range 2 {
				expect(t, p.Publish(timely(t), large("a.b")), publisher.Permanent)
			}
			server.reload(t, settings(1<<20))
			awaitLimit(t, url, 1<<20)
			takes(t, p, "a.b")
		})
	}
}

// A limit that was lowered ends the connection, and the error says why.
func TestLoweredLimit(t *testing.T) {
	t.Parallel()
	server := startServer(t, t.TempDir(), "max_payload: 1MB")
	createStream(t, "nats://"+server.address)
	p := open(t, nats.Config{Servers: []string{server.address}})
	accepts(t, p, "a.b")
	server.reload(t, "max_payload: 64KB")
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	told := false
	for ctx := timely(t); ; <-again.C {
		err := p.Publish(ctx, large("a.b"))[0]
		if class := publisher.ClassOf(err); class == publisher.Permanent {
			break
		} else if class == publisher.Ambiguous {
			told = told || strings.Contains(strings.ToLower(err.Error()), "maximum payload")
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	if !told {
		t.Error("no answer gave the server's reason")
	}
}
