// Package server obtains the servers of a run: a database and a broker that nobody else uses, so that they can be
// killed.
package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A Set is a database and a broker.
type Set struct {
	Database string // its URL
	Broker   string // its host:port

	broker  string // the name of the service
	script  string // dev/services.sh, "" for given servers, which are not ours to kill
	dir     string
	offset  int
	setting []string
}

// variables name the address of each service.
var variables = map[string]string{"postgres": "TEST_DATABASE_URL", "kafka": "TEST_KAFKA_URL", "nats": "TEST_NATS_URL", "rabbitmq": "TEST_AMQP_URL"}

// Postgres is the name of the database's service.
const Postgres = "postgres"

// Given takes the servers that the TEST_ variables name.
func Given(broker string, getenv func(string) string) (*Set, error) {
	s := &Set{broker: broker, Database: getenv(variables[Postgres])}
	address, err := url.Parse(getenv(variables[broker]))
	if err != nil || address.Host == "" || s.Database == "" {
		return nil, fmt.Errorf("set %s and %s, as eval \"$(dev/services.sh env)\" does", variables[Postgres], variables[broker])
	}
	s.Broker = address.Host
	return s, nil
}

// Ports of the services are chosen above those that others of this checkout use, and below those that Linux
// gives to outgoing connections.
const (
	lowestOffset  = 2000
	highestOffset = 3600
	attempts      = 5
)

// Start starts servers of its own with dev/services.sh of the checkout. kafkaPort is the port by which Kafka is to be
// known to its clients, 0 for its own. They are to be closed.
func Start(ctx context.Context, checkout, broker string, kafkaPort int) (*Set, error) {
	script, err := filepath.Abs(filepath.Join(checkout, "dev", "services.sh"))
	if err != nil {
		return nil, fmt.Errorf("find dev/services.sh: %w", err)
	}
	dir, err := os.MkdirTemp("", "outbox-relay-chaos-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the servers: %w", err)
	}
	s := &Set{broker: broker, script: script, dir: dir}
	if kafkaPort > 0 {
		s.setting = append(s.setting, fmt.Sprint("KAFKA_ADVERTISED_PORT=", kafkaPort))
	}
	for range attempts { // others may have taken a port
		s.offset = lowestOffset + rand.IntN(highestOffset-lowestOffset)
		if err = s.up(ctx, Postgres, broker); err == nil || ctx.Err() != nil {
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

// Ours reports whether the servers may be killed.
func (s *Set) Ours() bool { return s.script != "" }

// Crash kills a service as a machine does that loses power, but for its page cache.
func (s *Set) Crash(ctx context.Context, database bool) error {
	return s.run(ctx, nil, "crash", s.name(database))
}

// Recover starts a service that was killed, and waits until it is ready. One that runs stays as it is.
func (s *Set) Recover(ctx context.Context, database bool) error { return s.up(ctx, s.name(database)) }

func (s *Set) name(database bool) string {
	if database {
		return Postgres
	}
	return s.broker
}

func (s *Set) up(ctx context.Context, services ...string) error {
	return s.run(ctx, nil, append([]string{"up"}, services...)...)
}

func (s *Set) wipe(ctx context.Context) error { return s.run(ctx, nil, "wipe") }

// Close stops our servers and deletes what they stored. Given ones stay.
func (s *Set) Close(ctx context.Context) error {
	if !s.Ours() {
		return nil
	}
	return errors.Join(s.wipe(ctx), os.RemoveAll(s.dir))
}

func (s *Set) addresses(ctx context.Context) error {
	var out bytes.Buffer
	if err := s.run(ctx, &out, "env"); err != nil {
		return err
	}
	for line := range strings.Lines(out.String()) {
		name, value, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		value = strings.Trim(value, `'"`)
		switch name {
		case variables[Postgres]:
			s.Database = value
		case variables[s.broker]:
			address, err := url.Parse(value)
			if err != nil {
				return fmt.Errorf("address of %s: %w", s.broker, err)
			}
			s.Broker = address.Host
		}
	}
	if s.Database == "" || s.Broker == "" {
		return fmt.Errorf("dev/services.sh env does not name the addresses: %s", out.String())
	}
	return nil
}

// run runs a verb of dev/services.sh.
func (s *Set) run(ctx context.Context, out *bytes.Buffer, args ...string) error {
	cmd := exec.CommandContext(ctx, s.script, args...)
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "TEST_") && !strings.HasPrefix(pair, "SERVICES_DIR=") && !strings.HasPrefix(pair, "SERVICES_PORT_OFFSET=") {
			cmd.Env = append(cmd.Env, pair)
		}
	}
	cmd.Env = append(cmd.Env, s.setting...)
	cmd.Env = append(cmd.Env, "SERVICES_DIR="+s.dir, fmt.Sprint("SERVICES_PORT_OFFSET=", s.offset))
	var problems bytes.Buffer
	cmd.Stderr = &problems
	if out != nil {
		cmd.Stdout = out
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("dev/services.sh %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(problems.Bytes()))
	}
	return nil
}
