package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"

	"github.com/outbox-relay/outbox-relay/test/chaos/link"
	"github.com/outbox-relay/outbox-relay/test/chaos/plan"
	"github.com/outbox-relay/outbox-relay/test/chaos/server"
)

// A site is the servers and the links to them, for all seeds of one call.
type site struct {
	servers *server.Set
	data    [plan.MaxReplicas]*link.Link // to the database, one for each replica
	// broker leads to the broker. A Kafka tells its clients one address, so all replicas have the same link.
	broker [plan.MaxReplicas]*link.Link
	links  []*link.Link
}

func openSite(ctx context.Context, o options) (_ *site, err error) {
	s := &site{}
	defer func() {
		if err != nil {
			_ = s.close(context.WithoutCancel(ctx)) // err says more
		}
	}()
	for i := range plan.MaxReplicas {
		if s.data[i], err = s.listen(ctx); err != nil {
			return nil, err
		}
		if o.broker == "kafka" && i > 0 {
			s.broker[i] = s.broker[0]
		} else if s.broker[i], err = s.listen(ctx); err != nil {
			return nil, err
		}
	}
	if o.external {
		s.servers, err = server.Given(o.broker, getenv)
	} else {
		s.servers, err = server.Start(ctx, o.checkout, o.broker, port(s.broker[0]))
	}
	if err != nil {
		return nil, err
	}
	database, err := url.Parse(s.servers.Database)
	if err != nil {
		return nil, fmt.Errorf("address of the database: %w", err)
	}
	for i := range plan.MaxReplicas {
		s.data[i].Serve(database.Host)
		if i == 0 || s.broker[i] != s.broker[0] {
			s.broker[i].Serve(s.servers.Broker)
		}
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

// brokerAddress is where we reach the broker ourselves.
func (s *site) brokerAddress(o options) string {
	if o.broker == "kafka" && s.servers.Ours() {
		return s.broker[0].Address() // which it would tell us anyway
	}
	return s.servers.Broker
}

// relayBroker is where a replica reaches it. A Kafka that is not ours would tell its clients its own address.
func (s *site) relayBroker(o options, replica int) string {
	if o.broker == "kafka" && !s.servers.Ours() {
		return s.servers.Broker
	}
	return s.broker[replica].Address()
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

// restore lets all links work.
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
	_, text, _ := net.SplitHostPort(l.Address()) // it is our own listener's
	n, _ := strconv.Atoi(text)
	return n
}
