// Package cluster runs three servers of Kafka, NATS or RabbitMQ on this machine, for tests and benchmarks in which one
// of them is killed, stopped, frozen or cut off. Each server is behind a proxy of its own, which its advertised address
// names.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
)

// A Cluster is three servers of one broker. The word topic also stands for a stream or a queue. Nodes are numbered from
// 0.
type Cluster interface {
	Nodes() []*Node
	// URL returns a URL to publish to that names the proxies.
	URL() string
	// Create creates a topic with this number of replicas, led by a node.
	Create(ctx context.Context, topic string, leader, replicas int) error
	// Move makes a node that has a replica the leader of the topic.
	Move(ctx context.Context, topic string, to int) error
	// Try publishes a message without a body to each partition, bypassing the proxies. An error means that the topic
	// does not take it.
	Try(ctx context.Context, topic string) error
	// InSync reports whether all replicas of the topics are in sync.
	InSync(ctx context.Context, topics ...string) bool
	// Dial connects to the server at a proxy's address, bypassing the proxy.
	Dial(ctx context.Context, network, address string) (net.Conn, error)
	// Close stops all servers.
	Close()
}

// Size is the number of nodes in a cluster.
const Size = 3

// Options say where a cluster lives.
type Options struct {
	Checkout string   // directory of the module that contains dev/services.sh
	Dir      string   // existing directory for data and logs
	More     []string // additional configuration lines for each server
}

// Start starts a cluster of kafka, nats or rabbitmq and waits until it serves clients.
func Start(ctx context.Context, name string, o Options) (Cluster, error) {
	switch name {
	case "kafka":
		return started(startKafka(ctx, o))
	case "nats":
		return started(startNATS(ctx, o))
	case "rabbitmq":
		return started(startRabbit(ctx, o))
	default:
		return nil, fmt.Errorf("no cluster of %s", name)
	}
}

// started closes a cluster that could not be started.
func started(c Cluster, err error) (Cluster, error) {
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	return c, nil
}

// Through lets clients reach only one node until restore. A client that connects meanwhile and needs one connection is
// connected to that node. A Kafka client needs all brokers, so for Kafka nothing is done.
func Through(c Cluster, node int) (restore func() error, err error) {
	if _, ok := c.(*Kafka); ok {
		return func() error { return nil }, nil
	}
	restore = func() error {
		var all error
		for _, n := range c.Nodes() {
			all = errors.Join(all, n.Proxy.Restore())
		}
		return all
	}
	for i, n := range c.Nodes() {
		if i != node {
			err = errors.Join(err, n.Proxy.Blackhole())
		}
	}
	return restore, err
}

// nodes are the servers of a cluster.
type nodes struct {
	all []*Node
	url string
}

func (c *nodes) Nodes() []*Node { return c.all }
func (c *nodes) URL() string    { return c.url }

// begin starts all servers and waits until they serve clients.
func (c *nodes) begin(ctx context.Context) error {
	for _, n := range c.all {
		if err := n.Start(); err != nil {
			return err
		}
	}
	for _, n := range c.all {
		if err := n.Ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// up returns the running servers.
func (c *nodes) up() []*Node {
	var up []*Node
	for _, n := range c.all {
		if n.Up() {
			up = append(up, n)
		}
	}
	return up
}

// Dial implements [Cluster].
func (c *nodes) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	for _, n := range c.all {
		if n.Proxy.Address == address {
			address = n.Address
		}
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

func (c *nodes) close() {
	for _, n := range c.all {
		n.close()
	}
}

// proxies returns the proxies' addresses, which clients use.
func (c *nodes) proxies() string {
	var addresses []string
	for _, n := range c.all {
		addresses = append(addresses, n.Proxy.Address)
	}
	return strings.Join(addresses, ",")
}

// installed obtains a broker's software and returns the paths of some of its programs.
func (o Options) installed(ctx context.Context, service string, programs ...string) (paths []string, err error) {
	cmd := exec.CommandContext(ctx, "dev/services.sh", "install", service)
	cmd.Dir = o.Checkout
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("dev/services.sh install %s: %w: %s", service, err, problems.String())
	}
	for _, program := range programs {
		found := ""
		for _, dir := range filepath.SplitList(strings.TrimSpace(string(out))) {
			if path, err := exec.LookPath(filepath.Join(dir, program)); err == nil && found == "" {
				found = path
			}
		}
		if found == "" {
			return nil, fmt.Errorf("dev/services.sh install %s did not install %s", service, program)
		}
		paths = append(paths, found)
	}
	return paths, nil
}
