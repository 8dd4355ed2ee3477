package nats_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/nats"
)

// startCluster starts three servers.
func startCluster(t *testing.T) []*process {
	t.Helper()
	var routes []string
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		routes = append(routes, l.Addr().String())
		_ = l.Close()
	}
	all := make([]*process, len(routes))
	for i, listen := range routes {
		all[i] = startServer(t, t.TempDir(),
			fmt.Sprintf("server_name: s%d\ncluster { name: c, listen: %q, routes: [nats://%s] }", i, listen,
				strings.Join(routes, ", nats://")))
	}
	return all
}

// A stream with three replicas has no quorum if only one of its servers is left. Its rows wait, as in any outage.
func TestNoQuorum(t *testing.T) {
	t.Parallel()
	servers := startCluster(t)
	nc, err := client.Connect("nats://"+servers[0].address, client.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx := timely(t)
	for err = context.DeadlineExceeded; err != nil; { // until the servers have found each other
		attempt, cancel := context.WithTimeout(ctx, time.Second)
		_, err = js.CreateStream(attempt, jetstream.StreamConfig{Name: "A", Subjects: []string{"a.>"}, Replicas: 3})
		cancel()
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	p := open(t, nats.Config{Servers: []string{servers[0].address}})
	persist(t, p)
	// the stream's leader may be elsewhere
	for ctx := timely(t); errors.Join(p.Publish(ctx, hotRows("a.b", 10, 2))...) != nil; {
		if ctx.Err() != nil {
			t.Fatal("the stream takes nothing")
		}
	}

	servers[1].stop()
	servers[2].stop()
	seen := map[publisher.Class]int{}
	for ctx := timely(t); seen[publisher.Unavailable] < 3; { // the servers notice it after some time
		if ctx.Err() != nil {
			t.Fatalf("without a quorum the answers are %v", seen)
		}
		call, cancel := context.WithTimeout(ctx, time.Second)
		for _, err := range p.Publish(call, hotRows("a.other", 1, 1)) {
			seen[publisher.ClassOf(err)]++
			class := publisher.ClassOf(err) // Topology is possible while the server does not know of the stream's trouble yet
			fate, ok := publisher.FateOf(err, "a.other")
			if ok && class != publisher.Topology && fate != (publisher.Fate{Kind: publisher.FateStream, Name: "A"}) {
				t.Errorf("%v names %v", err, fate)
			}
			if err != nil && class != publisher.Unavailable && class != publisher.Ambiguous &&
				class != publisher.Topology {
				t.Fatalf("without a quorum an attempt is spent: %v", err)
			}
		}
		cancel()
	}
	t.Logf("answers: %v", seen)
}
