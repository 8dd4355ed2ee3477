package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/services/cluster"
	"github.com/outbox-relay/outbox-relay/test/chaos/broker"
	"github.com/outbox-relay/outbox-relay/test/chaos/link"
	"github.com/outbox-relay/outbox-relay/test/chaos/plan"
	"github.com/outbox-relay/outbox-relay/test/chaos/scene"
	"github.com/outbox-relay/outbox-relay/test/chaos/server"
)

// A site is the set of servers and of links to them, for all seeds of one call.
type site struct {
	servers *server.Set
	data    [plan.MaxReplicas]*link.Link // links to the database, one for each replica
	// broker leads to the broker, for each destination and replica. A Kafka server announces one address to its
	// clients, so all of them have the same link.
	broker [][plan.MaxReplicas]*link.Link
	links  []*link.Link
}

func openSite(ctx context.Context, o options) (_ *site, err error) {
	s := &site{}
	defer func() {
		if err != nil {
			_ = s.close(context.WithoutCancel(ctx)) // err has the cause
		}
	}()
	for i := range plan.MaxReplicas {
		if s.data[i], err = s.listen(ctx); err != nil {
			return nil, err
		}
	}
	s.broker = make([][plan.MaxReplicas]*link.Link, len(scene.New(o.scene, "").Destinations))
	var brokers []*link.Link
	for to := range s.broker {
		if o.cluster {
			break // its proxies are at the addresses that the nodes announce
		}
		for i := range plan.MaxReplicas {
			if o.broker != "kafka" || len(brokers) == 0 {
				l, err := s.listen(ctx)
				if err != nil {
					return nil, err
				}
				brokers = append(brokers, l)
			}
			s.broker[to][i] = brokers[len(brokers)-1]
		}
	}
	switch {
	case o.external:
		s.servers, err = server.Given(o.broker, getenv)
	case o.cluster:
		s.servers, err = server.StartCluster(ctx, o.checkout, o.broker)
	default:
		s.servers, err = server.Start(ctx, o.checkout, o.broker, port(brokers[0]))
	}
	if err != nil {
		return nil, err
	}
	database, err := url.Parse(s.servers.Database)
	if err != nil {
		return nil, fmt.Errorf("address of the database: %w", err)
	}
	for i := range plan.MaxReplicas {
		s.data[i].Serve(ctx, database.Host)
	}
	for _, l := range brokers {
		l.Serve(ctx, s.servers.Broker)
	}
	return s, nil
}

func (s *site) listen(ctx context.Context) (*link.Link, error) {
	l, err := link.Listen(ctx)
	if err == nil {
		s.links = append(s.links, l)
	}
	return l, err
}

// target is the broker as this program reaches it.
func (s *site) target(o options) broker.Target {
	if c := s.servers.Cluster; c != nil {
		t := broker.Target{Replicas: cluster.Size, Dial: c.Dial}
		for _, n := range c.Nodes() {
			t.Addresses = append(t.Addresses, n.Address)
		}
		return t
	}
	return broker.Target{Addresses: []string{s.brokerAddress(o)}, Replicas: 1}
}

// brokerAddress is the address of a single server for this program.
func (s *site) brokerAddress(o options) string {
	if o.broker == "kafka" && s.servers.Ours() {
		return s.broker[0][0].Address() // the address that it would announce anyway
	}
	return s.servers.Broker
}

// relayBroker is the address at which a replica reaches the broker for a destination. A given Kafka server would
// announce its own address to its clients. Of three nodes, each replica has another one first.
func (s *site) relayBroker(o options, replica, destination int) string {
	if c := s.servers.Cluster; c != nil {
		var all []string
		for i := range cluster.Size {
			all = append(all, c.Nodes()[(replica+i)%cluster.Size].Proxy.Address)
		}
		return strings.Join(all, ",")
	}
	if o.broker == "kafka" && !s.servers.Ours() {
		return s.servers.Broker
	}
	return s.broker[destination][replica].Address()
}

// relayDatabase is the URL of the database for a replica.
func (s *site) relayDatabase(replica int, application string) (string, error) {
	u, err := url.Parse(s.servers.Database)
	if err != nil {
		return "", fmt.Errorf("address of the database: %w", err)
	}
	u.Host = s.data[replica].Address()
	query := u.Query()
	query.Set("application_name", application)
	u.RawQuery = query.Encode()
	return u.String(), nil
}

// restore makes all links work.
func (s *site) restore() {
	for _, l := range s.links {
		l.Restore()
		l.Slow(0)
	}
}

func (s *site) close(ctx context.Context) error {
	for _, l := range s.links {
		l.Close()
	}
	if s.servers == nil {
		return nil
	}
	return s.servers.Close(ctx)
}

func port(l *link.Link) int {
	_, text, _ := net.SplitHostPort(l.Address()) // it is the address of our own listener
	n, _ := strconv.Atoi(text)
	return n
}
