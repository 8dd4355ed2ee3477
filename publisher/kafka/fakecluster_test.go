package kafka

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"
	"github.com/segmentio/kafka-go/protocol/initproducerid"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/segmentio/kafka-go/protocol/produce"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
)

// A fakeCluster speaks Kafka's protocol over real sockets and enforces the brokers' rules for producer ids, epochs and
// sequences. Its answers can be replaced, for faults that cannot be timed on a real broker.
type fakeCluster struct {
	t       *testing.T
	serving sync.WaitGroup
	closed  chan struct{}

	mu         sync.Mutex
	brokers    []*fakeBroker
	topics     map[string][]*fakePartition
	bend       func(*fakeBatch) fault // called for each batch, under mu; nil means no fault
	identities func() kafkago.Error   // answers a request for a producer id; nil gives one
	given      int64                  // number of producer ids so far; none is given twice
	throttle   int32                  // milliseconds, in produce answers
	throttles  []int32                // brokers that throttle; nil means all
	password   string                 // if not empty, SASL is required
	lifetime   time.Duration          // of a SASL session; 0 means for ever
	logins     int
	unknown    protocol.ApiKey   // a request that the brokers do not understand
	settings   map[string]string // settings of every topic
	replicas   int               // number of replicas of every partition; insync of them are in sync
	insync     int
	allowed    int32  // operations allowed on every topic
	hidden     bool   // the metadata contains no topic
	denied     string // a topic that this client may not use
	requests   int    // number of produce requests so far
	dials      int
	unheard    int // number of questions that were not answered
}

// A fakeBroker is one address of the cluster.
type fakeBroker struct {
	id       int32
	listener net.Listener
	conns    map[net.Conn]struct{} // guarded by the cluster's mu
	down     bool                  // accepts connections and closes them at once
	deaf     bool                  // does not answer questions for metadata
}

func newFakeCluster(t *testing.T, brokers int) *fakeCluster {
	return newFakeTLSCluster(t, brokers, nil)
}

// newFakeTLSCluster listens with TLS if secure is not nil.
func newFakeTLSCluster(t *testing.T, brokers int, secure *tls.Config) *fakeCluster {
	f := &fakeCluster{t: t, closed: make(chan struct{}), topics: map[string][]*fakePartition{}}
	for id := range brokers {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if secure != nil {
			listener = tls.NewListener(listener, secure)
		}
		b := &fakeBroker{id: int32(id), listener: listener, conns: map[net.Conn]struct{}{}}
		f.brokers = append(f.brokers, b)
		f.serving.Go(func() { f.accept(b) })
	}
	t.Cleanup(func() {
		close(f.closed)
		for _, b := range f.brokers {
			_ = b.listener.Close()
			f.setDown(b.id, true)
		}
		f.serving.Wait()
	})
	return f
}

// topic creates a topic whose partitions have these leaders.
func (f *fakeCluster) topic(name string, leaders ...int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, leader := range leaders {
		f.topics[name] = append(f.topics[name], &fakePartition{leader: leader, producers: map[int64]*fakeProducer{}})
	}
}

// open returns a publisher that knows the first broker.
func (f *fakeCluster) open(change ...func(*Config)) *Publisher {
	config := Config{Brokers: []string{f.brokers[0].listener.Addr().String()}, Logger: slog.New(slog.DiscardHandler)}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		f.mu.Lock()
		f.dials++
		f.mu.Unlock()
		var d net.Dialer
		return d.DialContext(ctx, network, address)
	}
	for _, c := range change {
		c(&config)
	}
	p := New(config)
	f.t.Cleanup(func() { _ = p.Close() })
	return p
}

// set changes the cluster under its lock.
func (f *fakeCluster) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// setDown makes a broker end its connections, and end new ones at once; or it brings the broker back.
func (f *fakeCluster) setDown(id int32, down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.brokers[id].down = down
	for c := range f.brokers[id].conns {
		_ = c.Close()
	}
}

// log returns the ids in the partition.
func (f *fakeCluster) log(topic string, partition int) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.topics[topic][partition].ids)
}

func (f *fakeCluster) accept(b *fakeBroker) {
	for {
		c, err := b.listener.Accept()
		if err != nil {
			return
		}
		f.mu.Lock()
		b.conns[c] = struct{}{}
		if b.down {
			_ = c.Close()
		}
		f.mu.Unlock()
		f.serving.Go(func() {
			f.serve(b, c)
			_ = c.Close()
			f.set(func() { delete(b.conns, c) })
		})
	}
}

func (f *fakeCluster) serve(b *fakeBroker, c net.Conn) {
	var login fakeLogin
	var ends time.Time // end of the session
	for {
		version, id, _, request, err := protocol.ReadRequest(c)
		if err != nil {
			return
		}
		var response protocol.Message
		switch r := request.(type) {
		case *apiversions.Request:
			response = &apiversions.Response{ApiKeys: []apiversions.ApiKeyResponse{
				{ApiKey: int16(protocol.Produce), MaxVersion: 13},
				{ApiKey: int16(protocol.Metadata), MaxVersion: 13},
				{ApiKey: int16(protocol.InitProducerId), MaxVersion: 5},
				{ApiKey: int16(protocol.ApiVersions), MaxVersion: 4},
				{ApiKey: int16(protocol.SaslHandshake), MaxVersion: 1},
				{ApiKey: int16(protocol.SaslAuthenticate), MaxVersion: 2},
				{ApiKey: int16(protocol.DescribeConfigs), MaxVersion: 4},
			}}
			answer := response.(*apiversions.Response)
			answer.ApiKeys = slices.DeleteFunc(answer.ApiKeys,
				func(k apiversions.ApiKeyResponse) bool { return f.unknown != 0 && k.ApiKey == int16(f.unknown) })
		case *saslhandshake.Request:
			login.mechanism = r.Mechanism
			response = &saslhandshake.Response{Mechanisms: []string{
				"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER",
				mechanismIAM,
			}}
			if !slices.Contains(response.(*saslhandshake.Response).Mechanisms, r.Mechanism) {
				response.(*saslhandshake.Response).ErrorCode = int16(kafkago.UnsupportedSASLMechanism)
			}
		case *saslauthenticate.Request:
			f.set(func() {
				answer := login.step(r.AuthBytes, f.password)
				if login.done {
					f.logins++
					answer.SessionLifetimeMs, ends = f.lifetime.Milliseconds(), time.Now().Add(f.lifetime)
				}
				response = answer
			})
		default:
			f.mu.Lock()
			closed := f.password != "" && (!login.done || f.lifetime > 0 && time.Now().After(ends))
			f.mu.Unlock()
			if closed {
				return
			}
		}
		switch r := request.(type) {
		case *metadata.Request:
			if f.hush(b) {
				<-f.closed
				return
			}
			response = f.metadata(r)
		case *describeconfigs.Request:
			response = f.describe(r)
		case *initproducerid.Request:
			answer := &initproducerid.Response{}
			f.set(func() {
				f.given++
				answer.ProducerID = f.given
				if f.identities != nil {
					answer.ErrorCode = int16(f.identities())
				}
			})
			response = answer
		case *produce.Request:
			if response = f.produce(b, r); response == nil {
				return
			}
		}
		if protocol.WriteResponse(c, version, id, response) != nil {
			return
		}
		if produced, ok := response.(*produce.Response); ok && produced.ThrottleTimeMs > 0 {
			select { // the connection is muted
			case <-time.After(time.Duration(produced.ThrottleTimeMs) * time.Millisecond):
			case <-f.closed:
				return
			}
		}
	}
}

// hush reports whether the broker leaves questions without an answer, and counts them.
func (f *fakeCluster) hush(b *fakeBroker) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b.deaf {
		f.unheard++
	}
	return b.deaf
}

func (f *fakeCluster) metadata(r *metadata.Request) *metadata.Response {
	f.mu.Lock()
	defer f.mu.Unlock()
	response := &metadata.Response{}
	for _, b := range f.brokers {
		host, port, _ := net.SplitHostPort(b.listener.Addr().String())
		number, _ := strconv.Atoi(port)
		response.Brokers = append(response.Brokers, metadata.ResponseBroker{NodeID: b.id, Host: host, Port: int32(number)})
	}
	for _, name := range r.TopicNames {
		topic := metadata.ResponseTopic{Name: name, TopicAuthorizedOperations: f.allowed}
		if f.topics[name] == nil || f.hidden {
			topic.ErrorCode = int16(kafkago.UnknownTopicOrPartition)
		}
		if name == f.denied {
			topic.ErrorCode = int16(kafkago.TopicAuthorizationFailed)
		}
		for i, p := range f.topics[name] {
			if f.hidden {
				break
			}
			topic.Partitions = append(topic.Partitions, metadata.ResponsePartition{
				PartitionIndex: int32(i), LeaderID: p.leader,
				ReplicaNodes: make([]int32, f.replicas), IsrNodes: make([]int32, f.insync),
			})
		}
		response.Topics = append(response.Topics, topic)
	}
	return response
}

func (f *fakeCluster) describe(r *describeconfigs.Request) *describeconfigs.Response {
	f.mu.Lock()
	defer f.mu.Unlock()
	response := &describeconfigs.Response{}
	for _, asked := range r.Resources {
		resource := describeconfigs.ResponseResource{ResourceName: asked.ResourceName}
		if f.settings == nil {
			resource.ErrorCode = int16(kafkago.TopicAuthorizationFailed)
		}
		for name, value := range f.settings {
			resource.ConfigEntries = append(resource.ConfigEntries,
				describeconfigs.ResponseConfigEntry{ConfigName: name, ConfigValue: value})
		}
		response.Resources = append(response.Resources, resource)
	}
	return response
}
