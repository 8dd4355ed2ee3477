package nats_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/nats"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// connect returns JetStream as a user of the server sees it.
func connect(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	nc, err := client.Connect(url, client.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// relays checks that a publisher whose account has no JetStream is ready, and publishes in spite of that.
func relays(t *testing.T, p *nats.Publisher, s jetstream.Stream) {
	t.Helper()
	// Wait until the subjects are known along the route.
	for ctx := timely(t); publisher.ClassOf(p.Publish(ctx, hotRows("orders.first", 1, 1))[0]) != publisher.Accepted; {
		if ctx.Err() != nil {
			t.Fatal("nothing is accepted")
		}
	}
	all := hotRows("orders.placed", 100, 3)
	for i, err := range p.Publish(timely(t), all) {
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	if info, err := s.Info(timely(t)); err != nil || info.State.Msgs < uint64(len(all)) {
		t.Errorf("the stream holds %+v: %v", info, err)
	}
	for range 3 {
		if err := p.Ping(timely(t)); err != nil {
			t.Errorf("although it publishes, ping says %v", err)
		}
	}
	expect(t, p.Publish(timely(t), hotRows("nobody.takes", 1, 1)), publisher.Topology)
	if err := p.Ping(timely(t)); err != nil {
		t.Errorf("a subject without a stream speaks against all others: %v", err)
	}
	if got := about(p.Examine(timely(t), publishertest.Addresses("orders.placed")), ""); !slices.Equal(got,
		[]string{"warning jetstream"}) {
		t.Errorf("doctor finds %q", got)
	}
}

// The streams belong to another account, which exports their subjects.
func TestStreamsOfAnotherAccount(t *testing.T) {
	t.Parallel()
	server := startServer(t, t.TempDir(), `accounts {
		STREAMS { jetstream: enabled, users: [{user: owner, password: secret}], exports: [{service: "orders.>"}] }
		RELAY { users: [{user: relay, password: secret}], imports: [{service: {account: STREAMS, subject: "orders.>"}}] }
	}`)
	s := stream(t, connect(t, "nats://owner:secret@"+server.address),
		jetstream.StreamConfig{Subjects: []string{"orders.>"}})
	relays(t, open(t, nats.Config{Servers: []string{server.address}, Auth: login("relay", "secret")}), s)
}

// The streams are those of a hub, behind a leaf node without JetStream. While the hub is away, its rows wait, and their
// answers do not say that a stream must be created.
func TestStreamsBehindALeafNode(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	dir := t.TempDir()
	hub := startNode(t, dir,
		fmt.Sprintf("server_name: hub\njetstream { store_dir: %q, domain: hub }\nleafnodes { listen: %q }", dir, address))
	leaf := startNode(t, t.TempDir(),
		fmt.Sprintf("server_name: leaf\nleafnodes { reconnect: 1, remotes: [{url: \"nats://%s\"}] }", address))
	js := connect(t, "nats://"+hub.address)
	s, err := js.CreateStream(timely(t), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
	if err != nil {
		t.Fatal(err)
	}
	p := open(t, nats.Config{Servers: []string{leaf.address}})
	relays(t, p, s)
	hub.stop()
	for ctx := timely(t); ; {
		call, cancel := context.WithTimeout(ctx, patience/10)
		err := p.Publish(call, hotRows("orders.placed", 1, 1))[0]
		cancel()
		switch class := publisher.ClassOf(err); {
		case class == publisher.Topology && strings.Contains(err.Error(), "leaf node"):
			return
		case class != publisher.Ambiguous && class != publisher.Unavailable || ctx.Err() != nil:
			t.Fatalf("with the hub away: %v", err)
		}
	}
}

// A leaf node gives the subjects other names on their way to the hub.
func TestLeafNodeRenamesSubjects(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	dir := t.TempDir()
	hub := startNode(t, dir, fmt.Sprintf(
		"server_name: hub\njetstream { store_dir: %q, domain: hub }\nleafnodes { listen: %q }", dir, address))
	leaf := startNode(t, t.TempDir(),
		fmt.Sprintf("server_name: leaf\nleafnodes { reconnect: 1, remotes: [{url: \"nats://%s\"}] }\n"+
			`mappings { "orders.*": "shop.orders.{{wildcard(1)}}" }`, address))
	js := connect(t, "nats://"+hub.address)
	s, err := js.CreateStream(timely(t), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"shop.orders.>"}})
	if err != nil {
		t.Fatal(err)
	}
	relays(t, open(t, nats.Config{Servers: []string{leaf.address}}), s)
}
