package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A NATS is three servers with JetStream. A topic is the stream of that name and its subject.
type NATS struct {
	nodes
	conn *nats.Conn
	js   jetstream.JetStream
}

var _ Cluster = (*NATS)(nil)

func startNATS(ctx context.Context, o Options) (*NATS, error) {
	s := &NATS{}
	programs, err := o.installed(ctx, "nats", "nats-server")
	if err != nil {
		return s, err
	}
	ports, err := freePorts(ctx, 3*Size)
	if err != nil {
		return s, err
	}
	own, proxies, routes := ports[:Size], ports[Size:2*Size], ports[2*Size:]
	for i := range Size {
		n, err := newNode(o.Dir, fmt.Sprint("nats-", i), own[i], proxies[i])
		if err != nil {
			return s, err
		}
		s.all = append(s.all, n)
		n.URL = "nats://" + n.Address
		config, err := n.write("nats.conf", append([]string{
			"server_name: " + n.Name, "listen: " + own[i], "client_advertise: " + fmt.Sprintf("%q", proxies[i]),
			fmt.Sprintf("cluster { name: c, listen: %q, routes: [nats://%s] }", routes[i],
				strings.Join(routes, ", nats://")),
			fmt.Sprintf("jetstream { store_dir: %q }", n.dir),
			fmt.Sprintf("server_tags: [%s]", strings.Join(tags(i), ", ")),
			"lame_duck_duration: 30s, lame_duck_grace_period: 1s",
		}, o.More...)...)
		if err != nil {
			return s, err
		}
		n.command = []string{programs[0], "-c", config}
		n.ready = func(ctx context.Context) error { return n.awaitLog(ctx, "Server is ready") }
	}
	s.url = "nats://" + s.proxies()
	if err := s.begin(ctx); err != nil {
		return s, err
	}
	// The servers advertise their proxies, which this connection bypasses.
	s.conn, err = nats.Connect("nats://"+strings.Join(own, ",nats://"), nats.IgnoreDiscoveredServers(),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(50*time.Millisecond), nats.PingInterval(time.Second), nats.Timeout(time.Second))
	if err == nil {
		s.js, err = jetstream.New(s.conn)
	}
	if err == nil {
		err = until(ctx, "the NATS servers have found each other", func() (bool, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Second) // requests sent too early get no answer
			defer cancel()
			_, err := s.js.AccountInfo(ctx)
			return err == nil, nil
		})
	}
	return s, err
}

// tags returns the tags of a node: its own, and one for each pair to which it belongs.
func tags(node int) []string {
	return []string{tagOf(node, 1), tagOf(node, 2), tagOf((node+Size-1)%Size, 2)}
}

// tagOf returns the tag of this number of nodes, beginning with a node.
func tagOf(node, n int) string { return fmt.Sprintf("from-%d-%d", node, n) }

// Create implements [Cluster].
func (s *NATS) Create(ctx context.Context, topic string, leader, replicas int) error {
	// It drops almost no duplicates, so that they can be counted.
	config := jetstream.StreamConfig{
		Name: topic, Subjects: []string{topic}, Replicas: replicas,
		Duplicates: 100 * time.Millisecond,
	}
	if replicas < Size {
		config.Placement = &jetstream.Placement{Tags: []string{tagOf(leader, replicas)}}
	}
	var failed error
	// servers may just have lost contact with each other
	err := until(ctx, "stream "+topic+" is made", func() (bool, error) {
		_, failed = s.js.CreateStream(ctx, config)
		return failed == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", err, failed)
	}
	return s.Move(ctx, topic, leader)
}

// Move implements [Cluster].
func (s *NATS) Move(ctx context.Context, topic string, to int) error {
	question, err := json.Marshal(map[string]any{"placement": map[string]string{"preferred": s.all[to].Name}})
	if err != nil {
		return err
	}
	return until(ctx, fmt.Sprintf("node %d leads %s", to, topic), func() (bool, error) {
		info := s.info(ctx, topic)
		if info != nil && info.Cluster != nil && info.Cluster.Leader == s.all[to].Name {
			return true, nil
		}
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		// the next attempt follows
		_, _ = s.conn.RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+topic, question)
		return false, nil
	})
}

// info returns the information about a stream, nil while no server answers.
func (s *NATS) info(ctx context.Context, topic string) *jetstream.StreamInfo {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	stream, err := s.js.Stream(ctx, topic)
	if err != nil {
		return nil
	}
	return stream.CachedInfo()
}

// Try implements [Cluster].
func (s *NATS) Try(ctx context.Context, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := s.js.Publish(ctx, topic, nil)
	return err
}

// InSync implements [Cluster].
func (s *NATS) InSync(ctx context.Context, topics ...string) bool {
	for _, topic := range topics {
		info := s.info(ctx, topic)
		if info == nil || info.Cluster == nil || info.Cluster.Leader == "" ||
			slices.ContainsFunc(info.Cluster.Replicas,
				func(p *jetstream.PeerInfo) bool { return !p.Current || p.Offline }) {
			return false
		}
	}
	return true
}

// LameDuck makes a server ask its clients to leave, close their connections one by one, and end.
func (s *NATS) LameDuck(ctx context.Context, node int, meanwhile func()) error {
	n := s.all[node]
	if err := n.Signal(syscall.SIGUSR2); err != nil {
		return err
	}
	err := until(ctx, n.Name+" has ended", func() (bool, error) {
		meanwhile()
		return !n.Up(), nil
	})
	if err == nil {
		n.ended()
	}
	return err
}

// Close implements [Cluster].
func (s *NATS) Close() {
	if s.conn != nil {
		s.conn.Close()
	}
	s.close()
}
