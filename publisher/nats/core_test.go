package nats_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	client "github.com/nats-io/nats.go"
	"github.com/outbox-relay/outbox-relay/internal/services"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/nats"
)

func TestCore(t *testing.T) {
	var log bytes.Buffer
	p := open(t, nats.Config{Core: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if !strings.Contains(log.String(), "stores nothing") {
		t.Errorf("there is no warning: %s", log.String())
	}
	nc, err := client.Connect(services.Endpoint(t, "TEST_NATS_URL"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	subject := harness{}.Unknown(t)
	sub, err := nc.SubscribeSync(subject)
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	all := hotRows(subject, 2500, 3)
	all[1] = publisher.Message{ID: "1", DedupID: "1", Topic: subject + ".nobody", Key: []byte("key1")} // nothing is subscribed
	for i, err := range p.Publish(timely(t), all) {
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	want := map[string][]string{}
	for i := range all {
		if i != 1 {
			want[string(all[i].Key)] = append(want[string(all[i].Key)], all[i].ID)
		}
	}
	for range len(all) - 1 {
		m, err := sub.NextMsg(patience)
		if err != nil {
			t.Fatal(err)
		}
		key := m.Header.Get("message-key")
		if got := m.Header.Get("message-id"); len(want[key]) == 0 || got != want[key][0] || m.Reply != "" {
			t.Fatalf("the next message of %s is %s with reply %q, want %.2q", key, got, m.Reply, want[key])
		}
		want[key] = want[key][1:]
	}
	if err := p.Ping(timely(t)); err != nil {
		t.Error(err)
	}
}

// A subject that is not permitted stops its keys, and leaves no gap in them.
func TestCoreDenied(t *testing.T) {
	var published atomic.Int64
	f := (&fake{publish: func(c *fakeConn, subject, _, _ string) {
		if strings.HasPrefix(subject, "denied") {
			c.say("-ERR 'Permissions Violation for Publish to %q'", subject)
			return
		}
		published.Add(1)
	}}).start(t)
	p := open(t, nats.Config{Core: true, Servers: []string{f.address}})
	for round := range 3 {
		all := rows("allowed", 6)
		for i, topic := range []string{"allowed", "denied.1", "allowed", "denied.2", "allowed", "allowed"} {
			all[i].Topic, all[i].Key = topic, fmt.Append(nil, i/3)
		}
		all[5].Key = nil
		answers := p.Publish(timely(t), all)
		expect(t, answers, publisher.Accepted, publisher.Topology, publisher.NotAttempted, publisher.Topology, publisher.NotAttempted,
			publisher.Accepted)
		if n := published.Load(); n != int64(2*(round+1)) {
			t.Errorf("%d messages arrived in round %d", n, round)
		}
	}
}
