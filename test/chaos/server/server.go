// Package server obtains the servers of a run: a database and a broker that nothing else uses, so that they can be
// killed.
package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/services"
	"github.com/outbox-relay/outbox-relay/internal/services/cluster"
)

// A Set is a database and a broker.
type Set struct {
	Database string // URL of the database
	Broker   string // host:port of the broker

	// Cluster is the broker if it has three nodes; otherwise nil. It is used by one goroutine at a time.
	Cluster cluster.Cluster

	broker string        // the name of the service
	own    *services.Set // nil for given servers, which must not be killed
}

// variables name the address of each service.
var variables = map[string]string{
	"postgres": "TEST_DATABASE_URL", "kafka": "TEST_KAFKA_URL", "nats": "TEST_NATS_URL",
	"rabbitmq": "TEST_AMQP_URL",
}

// Postgres is the name of the database's service.
const Postgres = "postgres"

// Given returns the servers that the TEST_ variables name.
func Given(broker string, getenv func(string) string) (*Set, error) {
	s := &Set{broker: broker, Database: getenv(variables[Postgres])}
	address, err := url.Parse(getenv(variables[broker]))
	if err != nil || address.Host == "" || s.Database == "" {
		return nil, fmt.Errorf("set %s and %s, as eval \"$(dev/services.sh env)\" does", variables[Postgres],
			variables[broker])
	}
	s.Broker = address.Host
	return s, nil
}

// Ports of the services are above the ports that other services of this checkout use, and below those that Linux
// assigns to outgoing connections.
const (
	lowestOffset  = 2000
	highestOffset = 3600
	attempts      = 5
	clusterTime   = 3 * time.Minute // three RabbitMQ nodes join one after the other
)

// Start starts separate servers with dev/services.sh of the checkout. kafkaPort is the port that Kafka announces to its
// clients, or 0 for its own. The caller closes the servers.
func Start(ctx context.Context, checkout, broker string, kafkaPort int) (*Set, error) {
	return start(ctx, checkout, broker, kafkaPort, false)
}

// StartCluster starts a separate database, and three nodes of a broker. The caller closes the servers.
func StartCluster(ctx context.Context, checkout, broker string) (*Set, error) {
	s, err := start(ctx, checkout, broker, 0, true)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(s.own.Dir, "cluster")
	if err = os.Mkdir(dir, 0o700); err == nil {
		limited, cancel := context.WithTimeout(ctx, clusterTime)
		defer cancel()
		s.Cluster, err = cluster.Start(limited, broker, cluster.Options{Checkout: checkout, Dir: dir})
	}
	if err != nil {
		return nil, errors.Join(err, s.Close(context.WithoutCancel(ctx)))
	}
	return s, nil
}

func start(ctx context.Context, checkout, broker string, kafkaPort int, databaseOnly bool) (*Set, error) {
	dir, err := os.MkdirTemp("", "outbox-relay-chaos-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the servers: %w", err)
	}
	s := &Set{broker: broker, own: &services.Set{Checkout: checkout, Dir: dir}}
	if kafkaPort > 0 {
		s.own.Settings = append(s.own.Settings, fmt.Sprint("KAFKA_ADVERTISED_PORT=", kafkaPort))
	}
	names := []string{Postgres, broker}
	if databaseOnly {
		names = names[:1]
	}
	for range attempts { // another process may have taken a port
		s.own.Offset = lowestOffset + rand.IntN(highestOffset-lowestOffset)
		if err = s.up(ctx, names...); err == nil || ctx.Err() != nil {
			break
		}
		err = errors.Join(err, s.wipe(context.WithoutCancel(ctx)))
	}
	if err == nil {
		err = s.addresses(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// Ours reports whether the servers were started by this package and may be killed.
func (s *Set) Ours() bool { return s.own != nil }

// Crash kills a service as a power failure would, except that the page cache survives.
func (s *Set) Crash(ctx context.Context, database bool) error {
	return s.run(ctx, "crash", s.name(database))
}

// Recover starts a service that was killed, and waits until it is ready. A service that runs is left as it is.
func (s *Set) Recover(ctx context.Context, database bool) error { return s.up(ctx, s.name(database)) }

func (s *Set) name(database bool) string {
	if database {
		return Postgres
	}
	return s.broker
}

func (s *Set) up(ctx context.Context, names ...string) error { return s.run(ctx, "up", names...) }

func (s *Set) wipe(ctx context.Context) error { return s.run(ctx, "wipe") }

// Close stops the servers that Start started and deletes their data. Given servers keep running.
func (s *Set) Close(ctx context.Context) error {
	if !s.Ours() {
		return nil
	}
	if s.Cluster != nil {
		s.Cluster.Close()
	}
	return errors.Join(s.wipe(ctx), os.RemoveAll(s.own.Dir))
}

func (s *Set) run(ctx context.Context, verb string, names ...string) error {
	_, err := s.own.Run(ctx, verb, names...)
	return err
}

func (s *Set) addresses(ctx context.Context) (err error) {
	if s.Database, err = s.own.Address(ctx, variables[Postgres]); err != nil {
		return err
	}
	broker, err := s.own.Address(ctx, variables[s.broker])
	if err != nil {
		return err
	}
	address, err := url.Parse(broker)
	if err != nil {
		return fmt.Errorf("address of %s: %w", s.broker, err)
	}
	s.Broker = address.Host
	return nil
}
