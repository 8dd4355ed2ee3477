// Package kafka publishes to Apache Kafka 2.4 and newer.
//
// It stands on kafka-go's protocol and connection, below its Writer and its Transport. The Writer
// lingers, appends twice after REQUEST_TIMED_OUT, lets later batches overtake a failed one and fails a
// whole call for one unknown topic. The Transport keeps metadata of its own, for all topics of the
// cluster, lets its callers wait for dials, and does not say whether a request was sent. Here one request
// for each leader carries the batches of many partitions, each with a producer id and a sequence, so that
// a batch sent again after a lost answer is appended once (see partition).
//
// A call sorts its messages into jobs, one for each partition, and the jobs into groups, one for each
// leader. It posts the next request of each group to the leader's broker and then takes what comes: turns
// of partitions that other calls were using, requests with what became of them, its own end. Nothing else
// blocks a call, and it alone touches its jobs.
//
// Each [broker] has one goroutine, which owns its connections, dials, backoff, requests in flight and the
// suspicion that it does not answer. Each round trip and each dial under way has a short-lived one beside
// it. All end with Close. A request that is posted comes back at the latest when its answer is late, so no
// broker can delay the calls that go to others:
//
//	            dial succeeds                 an answer is late
//	┌──────┐ ─────────────────▶ ┌───────┐ ────────────────────▶ ┌─────────┐
//	│ away │                    │ ready │                       │ suspect │─┐ again: a pause,
//	└──────┘ ◀───────────────── └───────┘ ◀──────────────────── └─────────┘◀┘ three times as long
//	   ▲        dial fails                 an answer in time         │
//	   └─────────────────────────────────────────────────────────────┘
//	                              dial fails
//
// What a request meets in each state:
//
//   - away: it comes back at once. The next dial begins when the backoff has passed and somebody would
//     send something; only Ping and other questions of an operator dial before that and wait.
//   - ready: its answer is late after patience, if another broker has answered since the call began. With no
//     such answer nobody is delayed, and the request stays until its own limit.
//   - suspect: one request at a time may wait for the answer, after a dial has shown that the broker is
//     there. All others come back at once. A broker that was away in the meantime is asked at once.
//   - throttled, beside any of these: it waits for the end of a short pause, and comes back at once during a
//     long one. A used-up quota is logged once, and once when no long pause has been asked for in a minute.
//
// What comes back unsent or unheard names the broker as its fate; its batch, if it was sent, stays with the
// partition until it is resolved.
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
	life     lifetime
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
		life: lifetime{over: make(chan struct{})}}
	p.cluster = newCluster(p)
	return p
}

// Ping asks any broker for the cluster's layout. It dials also where a dial has just failed.
func (p *Publisher) Ping(ctx context.Context) error {
	if p.life.ended() {
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
	p.life.end()
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
