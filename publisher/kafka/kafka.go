// Package kafka publishes to Apache Kafka 2.4 and newer.
//
// It stands on kafka-go's protocol and connection, below its Writer and its Transport. The Writer
// lingers, appends twice after REQUEST_TIMED_OUT, lets later batches overtake a failed one and fails a
// whole call for one unknown topic; the Transport keeps metadata of its own, for all topics of the
// cluster, and does not tell whether a request was sent. Here one request per leader carries the
// batches of many partitions, each with a producer id and a sequence, so that a batch sent again after
// a lost answer is appended once (see partition).
package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"

	"github.com/segmentio/kafka-go/compress"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/segmentio/kafka-go/sasl"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// Config says how to reach a cluster. Its fields are not changed after New.
type Config struct {
	// Brokers are addresses, host:port, of which any leads to the rest of the cluster.
	Brokers []string
	// TLS is asked for each connection, so that rotated certificates are taken; nil is plain TCP. Without
	// a ServerName each broker's certificate must be for its host. Its errors must not show secrets.
	TLS func() (*tls.Config, error)
	// SASL is asked for each connection, so that rotated credentials are taken; see [Mechanism]. nil is
	// no authentication. Its errors are logged and must not show secrets.
	SASL func() (sasl.Mechanism, error)
	// Partitioner is for messages with a key; nil is [Murmur2]. Those without go to one partition per
	// call, each time the next one that has no known trouble.
	Partitioner Partitioner
	// PartitionHeader names a header of the messages that holds the number of their partition; messages
	// without it, and all if it is empty, go where the partitioner sends them.
	PartitionHeader string
	// SendingTime gives records the time at which they are sent, instead of that of their rows.
	SendingTime bool
	// Compression of the batches; the zero value is none. A batch that would not become smaller is sent
	// as it is.
	Compression compress.Compression
	// ClientID names the relay in the brokers' logs and quotas.
	ClientID string
	// Dial makes connections; nil is a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Logger gets one line per change of state; nil is slog.Default.
	Logger *slog.Logger
}

// A Publisher sends messages to one cluster.
type Publisher struct {
	config   Config
	log      *slog.Logger
	cluster  *cluster
	identity *identity
	recall   recall
	open     closers
	calls    sync.Pool // *call
	buffers  sync.Pool // *[]byte
}

var _ publisher.Publisher = (*Publisher)(nil)

// New returns a publisher, which connects when it is first used.
func New(config Config) *Publisher {
	config.Brokers = slices.Clone(config.Brokers)
	if config.Dial == nil {
		config.Dial = new(net.Dialer).DialContext
	}
	if config.Partitioner == nil {
		config.Partitioner = Murmur2
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	p := &Publisher{config: config, log: config.Logger, identity: newIdentity(),
		open: closers{end: map[int]func(){}, done: make(chan struct{})}}
	p.cluster = newCluster(p)
	return p
}

// Ping asks any broker for the cluster's layout. It dials also where a dial has just failed.
func (p *Publisher) Ping(ctx context.Context) error {
	if p.open.closed() {
		return publisher.ErrClosed
	}
	_, err := p.cluster.ask(ctx, &metadata.Request{TopicNames: []string{}}, true)
	if _, explained := errors.AsType[*linkError](err); err != nil && !explained {
		return fmt.Errorf("kafka: %w: check that the broker runs, its address, and the network, TLS and SASL settings", err)
	}
	return err
}

// Close ends the connections at once. Calls that are under way return.
func (p *Publisher) Close() error {
	p.open.close()
	return nil
}

// maxRecycled is the capacity above which a buffer is left to the garbage collector.
const maxRecycled = 4 * maxBatchBytes

// buffer returns an empty buffer for a batch.
func (p *Publisher) buffer() []byte {
	if b, ok := p.buffers.Get().(*[]byte); ok {
		return *b
	}
	return nil
}

// recycle takes back a batch's bytes, which nobody reads any more.
func (p *Publisher) recycle(b []byte) {
	if cap(b) <= maxRecycled {
		b = b[:0]
		p.buffers.Put(&b)
	}
}
