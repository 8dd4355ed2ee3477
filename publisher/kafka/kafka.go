package kafka

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/segmentio/kafka-go/compress"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/segmentio/kafka-go/sasl"

	"github.com/outbox-relay/outbox-relay/internal/setting"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/connect"
	"github.com/outbox-relay/outbox-relay/publisher/internal/kept"
)

// Config says how to reach a cluster. Its fields are not changed after New.
type Config struct {
	// Brokers are addresses (host:port). Any one of them leads to the rest of the cluster.
	Brokers []string
	// TLS is called for each connection, so that rotated certificates take effect. nil means plain TCP. Without a
	// ServerName, each broker's certificate must be for its host. The error must not show secrets.
	TLS func() (*tls.Config, error)
	// SASL is called for each connection, so that rotated credentials take effect; see [Mechanism]. nil means no
	// authentication. The error is logged and must not show secrets.
	SASL func() (sasl.Mechanism, error)
	// Partitioner chooses the partition of messages with a key; nil is murmur2. Messages without a key go to one
	// partition per call, each time to any one without known trouble.
	Partitioner Partitioner
	// PartitionHeader is the name of a header that holds the partition number of a message. Messages without the header
	// go where the partitioner sends them, and so do all messages if the name is empty.
	PartitionHeader string
	// SendingTime gives records the time at which they are sent instead of the time of their rows.
	SendingTime bool
	// Compression is the codec of the batches; the zero value is none. A batch that would not become smaller is sent
	// uncompressed.
	Compression compress.Compression
	// ClientID names the relay in the brokers' logs and quotas.
	ClientID string
	// SettingName returns the user's name for a field of this configuration, or for a part of a field (TLS.RootCAs).
	// The name, for example that of a variable, appears in errors that ask the user to change the setting. If
	// SettingName is nil or returns "", the field's own name is used.
	SettingName func(field string) string
	// Dial makes connections; nil tries all addresses of the host. Dials to different brokers run side by side.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Logger gets one line per change of state; nil is slog.Default.
	Logger *slog.Logger
}

// A Publisher sends messages to one cluster. Its methods may be called concurrently: the relay has two calls of Publish
// under way for each destination. What outlives a call is in three places: the cluster (brokers, topics and their
// partitions), the producer id, and the table of messages whose outcome the caller has not learned.
type Publisher struct {
	config   Config
	names    setting.Names
	cluster  *cluster
	producer atomic.Int64 // id of all new partitions; unknownProducer if there is none
	kept     kept.Table[*batch]
	life     *connect.Lifetime
	calls    sync.Pool // *call
	// Buffers of batches, as *[]byte. A batch has up to a megabyte, and each call has one for each partition: new ones
	// would be most of what the publisher allocates.
	buffers sync.Pool
}

var _ publisher.Publisher = (*Publisher)(nil)

// New returns a publisher, which connects when it is first used. It neither dials nor fails: what is wrong with the
// configuration, such as an address that cannot be resolved, is the answer of Ping and Publish, because it may be right
// later.
func New(config Config) *Publisher {
	config.Brokers = slices.Clone(config.Brokers)
	if config.Dial == nil {
		config.Dial = connect.Dial
	}
	if config.Partitioner == nil {
		config.Partitioner, _ = ParsePartitioner("murmur2")
	}
	config.Logger = cmp.Or(config.Logger, slog.Default())
	p := &Publisher{config: config, names: config.SettingName, life: connect.NewLifetime()}
	p.calls.New = func() any { return &call{publisher: p, topics: map[string]*use{}} }
	p.buffers.New = func() any { return new([]byte) }
	p.producer.Store(unknownProducer)
	p.cluster = newCluster(p)
	return p
}

// Ping asks any broker for the cluster's layout. It dials even if a dial has just failed. The list of topics is empty
// and not nil: nil would ask for all topics of the cluster.
func (p *Publisher) Ping(ctx context.Context) error {
	_, err := p.cluster.ask(ctx, &metadata.Request{TopicNames: []string{}}, true)
	return err
}

// Close ends the connections at once. Calls that are under way return; their messages without an answer are ambiguous.
// Close returns when all goroutines have ended. None of them can add a connection after that, so the idle ones are
// closed last.
func (p *Publisher) Close() error {
	p.life.End()
	p.cluster.mu.Lock()
	defer p.cluster.mu.Unlock()
	for _, b := range p.cluster.brokers {
		b.discard(func(*conn) bool { return true })
	}
	return nil
}

// maxRecycled is the capacity above which a buffer is left to the garbage collector, so that one large row does not
// occupy its memory for ever. Batches of many records stay below a megabyte; only a record that is larger by itself
// goes beyond.
const maxRecycled = 4 * maxBatchBytes

// buffer returns an empty buffer for a batch.
func (p *Publisher) buffer() []byte { return *p.buffers.Get().(*[]byte) }

// recycle takes back the bytes of a batch that nothing reads any more. A request reads them until it has come back, so
// only a call that has the outcome of the request recycles them.
func (p *Publisher) recycle(b []byte) {
	if cap(b) <= maxRecycled {
		b = b[:0]
		p.buffers.Put(&b)
	}
}

// Protocol implements [publisher.Speaker].
func (p *Publisher) Protocol() publisher.Protocol { return publisher.ProtocolKafka }
