package kafka

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/outbox-relay/outbox-relay/publisher"
)

const (
	// metadataTTL is how soon new partitions of a topic are noticed if nothing fails. Everything else that changes,
	// such as a leader, is noticed by the answers of the brokers.
	metadataTTL = time.Minute
	// troubleTTL is the time after which a topic is asked for again because a partition has no leader, or because its
	// leader does not answer. An election takes some tens of milliseconds, but the cluster decides when it begins. A
	// topic that lacks a partition which a row names is asked for as soon, since the row has only a few attempts.
	troubleTTL = 100 * time.Millisecond
)

// cluster holds what is known of the brokers and of the topics in use. There is one lock for all of it: whether to wait
// for one broker depends on whether the others answer. It is held for moments only, never during a dial or a round
// trip.
type cluster struct {
	publisher *Publisher

	mu      sync.Mutex         // guards the following fields and the brokers' own
	brokers map[string]*broker // by address; the configured ones stay
	nodes   map[int32]*broker  // by node id, from the last metadata
	topics  map[string]*topic  // topics that have partitions, from the last metadata for each
	retimed sync.Map           // topics of which the log says that they refuse old times
}

// A topic is one answer of the metadata. The next answer takes over its partitions. Apart from doubted, it is not
// changed once it is in the cluster's table, so that calls read it without the lock.
type topic struct {
	name       string
	err        error        // why the cluster does not serve the topic; the answer for its messages
	leaders    []*broker    // by partition; nil if there is none
	indexes    []int        // numbers of the partitions
	learned    time.Time    // time of the answer
	doubted    atomic.Bool  // a message has named a partition that it lacks: the topic may have grown
	partitions []*partition // may be more than leaders, since a broker that has just started may not know all
}

// newCluster returns a cluster that knows the configured addresses. They stay known for ever, since they lead back to a
// cluster all of whose brokers have changed their addresses.
func newCluster(p *Publisher) *cluster {
	c := &cluster{
		publisher: p, brokers: map[string]*broker{}, nodes: map[int32]*broker{}, topics: map[string]*topic{},
	}
	for _, address := range p.config.Brokers {
		c.brokers[address] = &broker{cluster: c, address: address}
	}
	return c
}

// cached returns what is known of the topic, and whether that was learned recently. What was learned earlier is used as
// well if the cluster cannot be asked: the brokers say so if it is wrong. A topic with an error is asked for in each
// call, because the error may be over: a topic that is created is used in the first call after that. With kafka-go's
// own cache of 20 seconds, that took 2.5 and 12 seconds.
func (c *cluster) cached(name string, now time.Time) (known *topic, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known = c.topics[name]
	if known == nil || known.err != nil {
		return known, false
	}
	ttl := metadataTTL
	lost := func(leader *broker) bool { return leader == nil || leader.isAway() }
	if known.doubted.Load() || slices.ContainsFunc(known.leaders, lost) {
		ttl = troubleTTL
	}
	return known, now.Sub(known.learned) < ttl
}

// refresh asks the cluster for the topics by name, and returns each of them. One request serves all of them. An unknown
// topic among them has an error of its own, and so has one of which nothing was learned. The request never creates a
// topic (allow_auto_topic_creation is false).
func (c *cluster) refresh(ctx context.Context, names []string) map[string]*topic {
	learned := map[string]*topic{}
	m, err := c.ask(ctx, &metadata.Request{TopicNames: names}, false)
	if err == nil {
		learned = c.learn(m.(*metadata.Response))
		err = publisher.UnavailableError(publisher.ScopeTopic, "topic unavailable",
			"the broker left the topic out of its answer")
	}
	for _, name := range names {
		if learned[name] == nil {
			learned[name] = &topic{err: unavailable(err)}
		}
	}
	return learned
}

// leader returns the broker that takes the partition's batches, or the answer for its messages if there is none.
func (t *topic) leader(p *partition) (*broker, error) {
	switch index := int(p.index); {
	case t.err != nil:
		return nil, t.err
	case index >= len(t.leaders) || t.leaders[index] == nil:
		return nil, p.unavailable("no leader", "it has no leader")
	default:
		return t.leaders[index], nil
	}
}

// learn stores an answer and returns its topics. The answer names all brokers of the cluster, but only the topics that
// were asked for. The brokers' own fields survive: an address that was in trouble remains so.
func (c *cluster) learn(response *metadata.Response) map[string]*topic {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.nodes)
	for _, b := range response.Brokers {
		address := net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
		if c.brokers[address] == nil {
			c.brokers[address] = &broker{cluster: c, address: address}
		}
		c.nodes[b.NodeID] = c.brokers[address]
	}
	c.sweepBrokers()
	learned := map[string]*topic{}
	for i := range response.Topics {
		t := c.newTopic(&response.Topics[i])
		learned[t.name] = t
		if delete(c.topics, t.name); len(t.partitions) > 0 {
			c.topics[t.name] = t
		}
	}
	return learned
}

// sweepBrokers removes addresses that neither the configuration nor the cluster names any more, and ends connections
// that are no longer used. It runs with each answer of the metadata, at least once a minute while rows flow, so no
// goroutine is needed for it.
func (c *cluster) sweepBrokers() {
	now := time.Now()
	named := slices.Collect(maps.Values(c.nodes))
	for address, b := range c.brokers {
		left := !slices.Contains(c.publisher.config.Brokers, address) && !slices.Contains(named, b)
		if left {
			delete(c.brokers, address)
		}
		b.discard(func(c *conn) bool { return left || c.stale(now) })
	}
}

// newTopic builds a topic from an answer and what was known before. Partitions keep their identity, and with it their
// sequences and unresolved batches, across leaders, restarts of brokers and growth of the topic.
func (c *cluster) newTopic(t *metadata.ResponseTopic) *topic {
	known := &topic{name: t.Name, err: topicError(t), learned: time.Now()}
	before := c.topics[t.Name]
	if before != nil && kafkago.Error(t.ErrorCode) == kafkago.UnknownTopicOrPartition {
		// The topic was deleted, and with it what was kept to be sent to it. A topic of the same name that is created
		// later is another one, and begins with another producer id: a broker that does not know the topic only because
		// it has just started would otherwise take what is sent next for what was sent before.
		for _, p := range before.partitions {
			p.dead.Store(true)
		}
		c.publisher.retire(c.publisher.producer.Load())
		return known
	}
	if before != nil {
		known.partitions, known.leaders = before.partitions, before.leaders
	}
	if known.err != nil {
		return known
	}
	slices.SortFunc(t.Partitions, func(a, b metadata.ResponsePartition) int {
		return int(a.PartitionIndex - b.PartitionIndex)
	})
	for len(known.partitions) < len(t.Partitions) {
		known.partitions = append(known.partitions, newPartition(t.Name, int32(len(known.partitions))))
	}
	// The hash of a key is taken modulo the number of partitions, so that a key may now go elsewhere while its earlier
	// records are still read from the former partition. Nothing here can prevent that.
	if n := len(known.leaders); n != 0 && n != len(t.Partitions) {
		c.publisher.config.Logger.Warn("kafka topic has another number of partitions: "+
			"keys move, and the order of each key begins again", "topic", t.Name, "before", n,
			"partitions", len(t.Partitions))
	}
	known.leaders = nil
	for i := range t.Partitions {
		known.leaders = append(known.leaders, c.nodes[t.Partitions[i].LeaderID])
		known.indexes = append(known.indexes, i)
	}
	return known
}

// topicError classifies what the cluster reports for a topic as a whole.
func topicError(t *metadata.ResponseTopic) error {
	code, unknown := kafkago.Error(t.ErrorCode), len(t.Partitions) == 0
	switch {
	case code == kafkago.UnknownTopicOrPartition:
		return publisher.TopologyError("unknown topic",
			"topic %q does not exist, or this client may not see it: create it", t.Name)
	case code == kafkago.TopicAuthorizationFailed:
		return publisher.TopologyError("topic not allowed", "topic %q: grant this client WRITE and DESCRIBE: %w",
			t.Name, code)
	case code == kafkago.InvalidTopic:
		return publisher.PermanentError("illegal topic", "topic %q: %w", t.Name, code)
	case code != 0:
		return publisher.UnavailableError(publisher.ScopeTopic, "topic unavailable", "topic %q: %w", t.Name, code)
	}
	for i := range t.Partitions {
		// Keys are distributed by the number of partitions. Using only some of the partitions would break the order.
		index := int(t.Partitions[i].PartitionIndex)
		unknown = unknown || index < 0 || index >= len(t.Partitions)
	}
	if unknown {
		return publisher.UnavailableError(publisher.ScopeTopic, "topic unavailable",
			"topic %q: the cluster does not know all partitions yet", t.Name)
	}
	return nil
}

// allAway reports whether no broker of the cluster can be reached and answers, as far as is known. c.mu is held.
// Without another broker to prefer, patience has no purpose: nobody else's rows are delayed, and the caller reports the
// whole destination.
func (c *cluster) allAway() bool {
	for _, b := range c.nodes {
		if !b.isAway() {
			return false
		}
	}
	return true
}

// othersAnswer reports whether other brokers have answered requests of any call since the given time. That
// distinguishes a broker in trouble from a network or a machine that stands still: if nothing answers anybody, waiting
// delays no other rows.
func (c *cluster) othersAnswer(except *broker, since time.Time) bool {
	for _, b := range c.nodes {
		if b != except && b.heard.After(since) {
			return true
		}
	}
	return false
}

// unavailable returns the answer if no broker could be asked.
func unavailable(err error) error {
	if _, ok := errors.AsType[*publisher.Error](err); ok {
		return err
	}
	return publisher.UnavailableError(publisher.ScopeDestination, shortOf(err), "%w", err)
}
