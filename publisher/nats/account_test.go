package nats_test

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/nats"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// The server has a JetStream domain of its own, and the streams are in another domain. When that domain is configured,
// the doctor finds the streams, and so does the lookup of streams for keys with many messages.
func TestStreamsOfADomain(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	hubDir, leafDir := t.TempDir(), t.TempDir()
	hub := startNode(t, hubDir,
		fmt.Sprintf("server_name: hub\njetstream { store_dir: %q, domain: hub }\nleafnodes { listen: %q }", hubDir,
			address))
	leaf := startNode(t, leafDir,
		fmt.Sprintf("server_name: leaf\njetstream { store_dir: %q, domain: leaf }\nleafnodes { reconnect: 1, "+
			"remotes: [{url: \"nats://%s\"}] }", leafDir, address))
	if _, err := connect(t, "nats://"+hub.address).CreateStream(timely(t),
		jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}}); err != nil {
		t.Fatal(err)
	}
	p := open(t, nats.Config{Servers: []string{leaf.address}, Domain: "hub"})
	// Wait until the subjects are known along the route.
	for publisher.ClassOf(p.Publish(timely(t), hotRows("orders.first", 1, 1))[0]) != publisher.Accepted {
		if t.Context().Err() != nil {
			t.Fatal("nothing is accepted")
		}
	}
	if err := p.Ping(timely(t)); err != nil {
		t.Error(err)
	}
	if got := about(p.Examine(timely(t), publishertest.Addresses("orders.placed")), "orders.placed"); !slices.Equal(got,
		[]string{"ok topic"}) {
		t.Errorf("doctor finds %q", got)
	}
	there := open(t, nats.Config{Servers: []string{leaf.address}})
	if got := about(there.Examine(timely(t), publishertest.Addresses("orders.placed")),
		"orders.placed"); !slices.Equal(got,
		[]string{"error topic"}) {
		t.Errorf("without the domain, doctor finds %q", got)
	}
}

// A user may subscribe only to inboxes of its own.
func TestInboxPrefix(t *testing.T) {
	t.Parallel()
	server := startServer(t, t.TempDir(), `authorization { users = [
		{ user: owner, password: secret }
		{ user: relay, password: secret, permissions: { publish: ">", subscribe: "_INBOX_relay.shop.>" } }
	] }`)
	s := stream(t, connect(t, "nats://owner:secret@"+server.address),
		jetstream.StreamConfig{Subjects: []string{"orders.>"}})
	config := nats.Config{Servers: []string{server.address}, Auth: login("relay", "secret")}
	refused := open(t, config).Ping(timely(t))
	if refused == nil || !strings.Contains(refused.Error(), "_INBOX.>") ||
		!strings.Contains(refused.Error(), "InboxPrefix") {
		t.Errorf("with the usual inboxes: %v", refused)
	}
	config.InboxPrefix = "_INBOX_relay.shop"
	p := open(t, config)
	if err := p.Ping(timely(t)); err != nil {
		t.Error(err)
	}
	all := hotRows("orders.placed", 100, 3)
	for i, err := range p.Publish(timely(t), all) {
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	inOrder(t, s, all)
	expect(t, p.Publish(timely(t), hotRows("_INBOX_relay.shop.x", 1, 1)), publisher.Permanent)
	expect(t, p.Publish(timely(t), hotRows("nobody.takes", 1, 1)), publisher.Topology)
}

// A row may say how long a stream keeps its message. If the stream does not allow that, only such rows wait. One that
// says something else fails, at the latest once the stream allows it.
func TestTTL(t *testing.T) {
	t.Parallel()
	js := broker(t)
	topic := "test." + t.Name()
	config := jetstream.StreamConfig{Name: "TEST_" + t.Name(), Subjects: []string{topic}}
	s := stream(t, js, config)
	p := open(t, nats.Config{})
	all := hotRows(topic, 3, 3)
	all[0].Headers = []publisher.Header{{Name: "nats-ttl", Value: "1h"}}
	all[1].Headers = []publisher.Header{{Name: "Nats-TTL", Value: "an hour"}}
	answers := p.Publish(timely(t), all)
	expect(t, answers[:1], publisher.Topology)
	expect(t, answers[2:], publisher.Accepted)
	if publisher.ScopeOf(answers[0]) != publisher.ScopeMessage || !strings.Contains(answers[0].Error(), "allow_msg_ttl") {
		t.Errorf("where the stream takes no TTL: %v", answers[0])
	}
	config.AllowMsgTTL = true
	if _, err := js.UpdateStream(timely(t), config); err != nil {
		t.Fatal(err)
	}
	for _, illegal := range []string{"an hour", "500ms", "-1", "0"} {
		all[1].Headers[0].Value = illegal
		expect(t, p.Publish(timely(t), all[1:2]), publisher.Permanent)
	}
	expect(t, p.Publish(timely(t), all[:1]), publisher.Accepted)
	stored := read(t, s, 2)
	if i := slices.IndexFunc(stored, func(m publisher.Message) bool { return m.ID == all[0].ID }); i < 0 ||
		!slices.Contains(stored[i].Headers, publisher.Header{Name: "Nats-TTL", Value: "1h"}) {
		t.Errorf("stored are %+v", stored)
	}
}

// How long a stream keeps a row's message says nothing about the stream of its dead letter.
func TestCheckHeader(t *testing.T) {
	t.Parallel()
	p := open(t, nats.Config{})
	for name, carried := range map[string]bool{"a": true, "Nats-TTL": false, "a b": false} {
		if err := p.CheckHeader(&publisher.Header{Name: name, Value: "1h"}); (err == nil) != carried {
			t.Errorf("%s: %v", name, err)
		}
	}
}
