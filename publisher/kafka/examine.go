package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/internal/inspect"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
	"github.com/outbox-relay/outbox-relay/publisher/internal/connect"
)

// Names of checks besides those in package inspect, as scripts read them.
const (
	checkElection    = "unclean_election"
	checkIdempotence = "idempotence"
)

var _ publisher.Examiner = (*Publisher)(nil)

// Examine implements [publisher.Examiner]: it examines the brokers, the login, the topics and what their
// acknowledgements guarantee. All questions go over the connections that rows use, so that a finding is about the same
// network, TLS and login.
func (p *Publisher) Examine(ctx context.Context, addresses []publisher.Address) []finding.Finding {
	e := &examination{p: p}
	topics := []string{} // not nil, which would request all topics
	legal := func(to publisher.Address) error { return checkTopic(to.Topic) }
	for _, to := range inspect.Legal(&e.List, addresses, p.names, legal) {
		topics = append(topics, to.Topic)
	}
	question := &metadata.Request{TopicNames: topics, IncludeTopicAuthorizedOperations: true}
	answer, err := p.cluster.ask(ctx, question, true)
	if err != nil {
		return append(e.List, connect.Unusable(strings.Join(p.config.Brokers, ", "), err, lookAfter)...)
	}
	response := answer.(*metadata.Response)
	p.cluster.learn(response)
	e.reached(ctx)
	if _, err = p.producerID(ctx); err != nil {
		e.Fail(checkIdempotence, "", "the cluster gives no producer id: "+errtext.Line(err),
			"grant WRITE on the topics or IDEMPOTENT_WRITE on the cluster, or look at the brokers' logs")
	}
	slices.SortFunc(response.Topics, func(a, b metadata.ResponseTopic) int { return strings.Compare(a.Name, b.Name) })
	var present []*metadata.ResponseTopic
	for i := range response.Topics {
		if t := &response.Topics[i]; e.topic(t) {
			present = append(present, t)
		}
	}
	if len(present) > 0 {
		e.settings(ctx, present)
	}
	return e.List
}

// An examination gathers findings.
type examination struct {
	p *Publisher
	finding.List
}

// lookAfter is the remedy for a failure that nothing else is known of.
const lookAfter = "check that the broker runs, its address, and the network"

// reached examines each broker that the cluster names: the partitions it leads need it.
func (e *examination) reached(ctx context.Context) {
	for _, b := range e.p.cluster.named() {
		if _, err := e.p.cluster.askOf(ctx, []*broker{b}, &apiversions.Request{}, true); err != nil {
			e.List = append(e.List, connect.Unusable(b.address, err, lookAfter)...)
			continue
		}
		e.Well(inspect.Reach, b.address, "answers")
	}
	inspect.Protection(&e.List, "", e.p.config.SASL != nil, e.p.config.TLS != nil,
		"write kafka+tls://, where the cluster has a listener for it")
}

// operationWrite is the bit of WRITE in a set of allowed operations; operationsUnknown is the set of a broker that
// does not report them.
const (
	operationWrite    = 1 << 4
	operationsUnknown = -1 << 31
)

// topic examines the topic's metadata. It reports whether the topic can be used.
func (e *examination) topic(t *metadata.ResponseTopic) bool {
	if err := topicError(t); err != nil {
		e.Fail(inspect.Topic, t.Name, "its rows are held: "+errtext.Line(err),
			"create it, grant DESCRIBE and WRITE on it, or look at the brokers' logs")
		return false
	}
	// Answers of old brokers lack the field, which then is 0.
	allowed := t.TopicAuthorizedOperations
	e.Add(inspect.Permission, t.Name, finding.FailIf(allowed != 0 && allowed != operationsUnknown &&
		allowed&operationWrite == 0, "this client may not write to it, so its rows are held", "grant WRITE on it"))
	leaderless := func(p metadata.ResponsePartition) bool { return p.LeaderID < 0 }
	e.Add(inspect.Topic, t.Name,
		finding.FailIf(slices.ContainsFunc(t.Partitions, leaderless),
			"some of its partitions have no leader, so their rows are held", "bring back the brokers that hold them"),
		finding.OKIf(true, fmt.Sprintf("exists, with %d partitions", len(t.Partitions))))
	return true
}

// named returns the brokers that the cluster names, sorted by address.
func (c *cluster) named() []*broker {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(maps.Values(c.nodes), func(a, b *broker) int {
		return strings.Compare(a.address, b.address)
	})
}
