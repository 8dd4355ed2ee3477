package kafka

import (
	"context"
	"log/slog"
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
	// leaderlessTTL is the time after which a topic that has a partition without a leader is asked for again. An
	// election takes some tens of milliseconds.
	leaderlessTTL = 50 * time.Millisecond
	// doubtTTL is the time after which a topic is asked for again because a message names a partition that it lacks.
	doubtTTL = time.Second
	// movingTTL is the time after which a topic is asked for again because a partition's leader is a suspect. The
	// cluster decides when another broker becomes the leader.
	movingTTL = 250 * time.Millisecond
)

// cluster holds what is known of the brokers and of the topics in use.
type cluster struct {
	publisher *Publisher
	log       *slog.Logger

	mu      sync.Mutex          // guards the following fields and the brokers' own
	brokers map[string]*broker  // by address; the configured ones stay
	nodes   map[int32]*broker   // by node id, from the last metadata
	topics  map[string]*topic   // the topics that the cluster serves
	states  map[string]*history // by topic; outlives metadata
	retimed sync.Map            // topics of which the log says that they refuse old times
}

// A topic is one answer of the metadata. Only its expiry is changed afterwards, under the cluster's mu.
type topic struct {
	name       string
	leaders    []*broker // by partition; nil if there is none
	indexes    []int     // numbers of the partitions
	available  []int32   // partitions that have a leader
	partitions []*partition
	learned    time.Time
	expires    time.Time
	spread     *atomic.Uint32 // number of calls so far: free messages go to one partition per call
}

// A history is what is kept of a topic from one answer of the metadata to the next.
type history struct {
	partitions []*partition
	count      int // number of partitions in the last answer
	spread     atomic.Uint32
}

// newCluster returns a cluster that knows the configured addresses.
func newCluster(p *Publisher) *cluster {
	c := &cluster{
		publisher: p, log: p.config.Logger, brokers: map[string]*broker{}, nodes: map[int32]*broker{},
		topics: map[string]*topic{}, states: map[string]*history{},
	}
	for _, address := range p.config.Brokers {
		c.brokers[address] = &broker{cluster: c, address: address}
	}
	return c
}

// cached returns what is known of the topic, and whether that was learned recently. What was learned earlier is used as
// well if the cluster cannot be asked: the brokers say so if it is wrong.
func (c *cluster) cached(name string, now time.Time) (known *topic, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known = c.topics[name]
	return known, known != nil && now.Before(known.expires)
}

// doubt makes the next call ask for the topic again and reports true, provided that the topic was learned at least ttl
// ago.
func (t *topic) doubt(ttl time.Duration, now time.Time) bool {
	doubted := now.Sub(t.learned) >= ttl
	if doubted {
		t.expires = now
	}
	return doubted
}

// refresh asks the cluster for the topics by name. An error concerns all of them. Topics that the cluster does not
// serve have an error of their own in refused.
func (c *cluster) refresh(ctx context.Context, names []string) (refused map[string]error, err error) {
	m, err := c.ask(ctx, &metadata.Request{TopicNames: names}, false)
	if err != nil {
		return nil, err
	}
	return c.learn(m.(*metadata.Response)), nil
}

// learn stores an answer. The answer names all brokers of the cluster, but only the topics that were asked for.
func (c *cluster) learn(response *metadata.Response) (refused map[string]error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	refused = map[string]error{}
	clear(c.nodes)
	for _, b := range response.Brokers {
		address := net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
		if c.brokers[address] == nil {
			c.brokers[address] = &broker{cluster: c, address: address}
		}
		c.nodes[b.NodeID] = c.brokers[address]
	}
	c.sweepBrokers()
	for i := range response.Topics {
		t := &response.Topics[i]
		if err := topicError(t); err != nil {
			refused[t.Name] = err
			delete(c.topics, t.Name)
			if kafkago.Error(t.ErrorCode) == kafkago.UnknownTopicOrPartition && c.states[t.Name] != nil {
				c.forget(t.Name)
			}
			continue
		}
		c.topics[t.Name] = c.newTopic(t)
	}
	return refused
}

// forget removes a deleted topic, and what was kept to be sent to it. A topic of the same name that is created later is
// another one, and begins with another producer id: a broker that does not know the topic only because it has just
// started would otherwise take what is sent next for what was sent before.
func (c *cluster) forget(name string) {
	for _, p := range c.states[name].partitions {
		p.dead.Store(true)
	}
	c.publisher.identity.retire(c.publisher.identity.known.Load())
	delete(c.states, name)
}

// sweepBrokers removes addresses that neither the configuration nor the cluster names any more, and ends connections
// that are no longer used.
func (c *cluster) sweepBrokers() {
	now := time.Now()
	for address, b := range c.brokers {
		if b.left = !slices.Contains(c.publisher.config.Brokers, address) && !c.names(b); b.left {
			delete(c.brokers, address)
		}
		b.discard(func(c *conn) bool { return b.left || c.stale(now) })
	}
}

// names reports whether the cluster itself names the broker.
func (c *cluster) names(b *broker) bool {
	for _, node := range c.nodes {
		if node == b {
			return true
		}
	}
	return false
}

// newTopic builds a topic from an answer and what was known before. Partitions are kept even if the topic has fewer of
// them now, since a broker that has just started may not know all.
func (c *cluster) newTopic(t *metadata.ResponseTopic) *topic {
	slices.SortFunc(t.Partitions, func(a, b metadata.ResponsePartition) int {
		return int(a.PartitionIndex - b.PartitionIndex)
	})
	h, now := c.states[t.Name], len(t.Partitions)
	if h == nil {
		h = &history{count: now}
		c.states[t.Name] = h
	}
	for len(h.partitions) < now {
		h.partitions = append(h.partitions, newPartition(t.Name, int32(len(h.partitions))))
	}
	known := &topic{name: t.Name, partitions: h.partitions[:now], learned: time.Now(), spread: &h.spread}
	for i := range t.Partitions {
		leader := c.nodes[t.Partitions[i].LeaderID]
		known.leaders, known.indexes = append(known.leaders, leader), append(known.indexes, i)
		if leader != nil {
			known.available = append(known.available, int32(i))
		}
	}
	if h.count != now {
		c.log.Warn("kafka topic has another number of partitions: "+
			"keys move, and the order of each key begins again", "topic", t.Name, "before", h.count, "partitions", now)
	}
	h.count = now
	ttl := metadataTTL
	if len(known.available) < now {
		ttl = leaderlessTTL
	}
	known.expires = known.learned.Add(ttl)
	return known
}

// unknownTopic is the fixed wording for a topic that the cluster does not know.
const unknownTopic = "unknown topic"

// topicError classifies what the cluster reports for a topic as a whole.
func topicError(t *metadata.ResponseTopic) error {
	code := kafkago.Error(t.ErrorCode)
	switch {
	case code == kafkago.UnknownTopicOrPartition:
		return publisher.TopologyError(unknownTopic,
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
		if t.Partitions[i].PartitionIndex < 0 || int(t.Partitions[i].PartitionIndex) >= len(t.Partitions) {
			// Keys are distributed by the number of partitions. Using only some of the partitions would break the
			// order.
			return publisher.UnavailableError(publisher.ScopeTopic, "topic unavailable",
				"topic %q: the cluster does not know all partitions yet", t.Name)
		}
	}
	if len(t.Partitions) == 0 {
		return publisher.UnavailableError(publisher.ScopeTopic, "topic unavailable", "topic %q has no partitions yet",
			t.Name)
	}
	return nil
}

// unreachable reports whether no broker of the cluster can be reached and answers, as far as is known.
func (c *cluster) unreachable() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.allAway()
}

func (c *cluster) allAway() bool {
	for _, b := range c.nodes {
		if !b.isAway() {
			return false
		}
	}
	return true
}

// othersAnswer reports whether other brokers have answered requests of any call since the given time.
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
	return publisher.UnavailableError(publisher.ScopeDestination, shortOf(err), "%w", err)
}
