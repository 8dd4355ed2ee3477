package nats_test

import (
	"crypto/tls"
	"fmt"
	"slices"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/outbox-relay/outbox-relay/internal/tlstest"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
	"github.com/outbox-relay/outbox-relay/publisher/nats"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// Everything works over WebSocket, with and without TLS: acknowledgements, large messages, an outage, and the
// doctor.
func TestWebSocket(t *testing.T) {
	t.Parallel()
	a := tlstest.NewAuthority(t)
	leaf := a.Issue(t, tlstest.Leaf{Name: "127.0.0.1"})
	for name, settings := range map[string]string{
		"ws":  `no_tls: true`,
		"wss": `tls { cert_file: "server.pem", key_file: "server.key" }`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, "server.pem", leaf.Cert)
			write(t, dir, "server.key", leaf.Key)
			settings = "authorization { user: relay, password: secret }\nwebsocket { listen: %q, " + settings + " }"
			server := startServer(t, dir, fmt.Sprintf(settings, "127.0.0.1:-1"))
			s := stream(t, connect(t, "nats://relay:secret@"+server.address),
				jetstream.StreamConfig{Subjects: []string{"orders.>"}})
			config := nats.Config{Servers: []string{name + "://relay:secret@" + server.webSocket}}
			if name == "wss" {
				config.TLS = func() (*tls.Config, error) { return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: a.Pool}, nil }
			}
			p := open(t, config)
			all := hotRows("orders.placed", 500, 7)
			all[3].Payload = make([]byte, 900_000)
			for i, err := range p.Publish(timely(t), all) {
				if err != nil {
					t.Fatalf("message %d: %v", i, err)
				}
			}
			inOrder(t, s, all)
			found := p.Examine(timely(t), publishertest.Addresses("orders.placed"))
			if slices.ContainsFunc(found, func(f finding.Finding) bool { return f.Severity == finding.Error }) {
				t.Errorf("doctor finds %+v", found)
			}
			server.stop()
			for publisher.ClassOf(p.Publish(timely(t), hotRows("orders.placed", 1, 1))[0]) == publisher.Accepted {
				t.Fatal("a server that is away accepts")
			}
			server.configure(t, fmt.Sprintf(settings, server.webSocket))
			server.start(t)
			persist(t, p)
			expect(t, p.Publish(timely(t), hotRows("orders.placed", 2, 1)), publisher.Accepted, publisher.Accepted)
		})
	}
}
