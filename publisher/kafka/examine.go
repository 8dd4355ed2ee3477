package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// Names of what is examined, as scripts read them.
const (
	checkReach          = "reach"
	checkAuthentication = "authentication"
	checkTopic          = "topic"
	checkPermission     = "permission"
	checkReplication    = "replication"
	checkElection       = "unclean_election"
	checkSize           = "message_size"
	checkTime           = "message_time"
	checkIdempotence    = "idempotence"
)

var _ publisher.Examiner = (*Publisher)(nil)

// Examine looks at the brokers, the login, the topics and what their acknowledgements are worth; see
// [publisher.Examiner].
func (p *Publisher) Examine(ctx context.Context, addresses []publisher.Address) []finding.Finding {
	e := &examination{publisher: p, oldest: map[string]time.Time{}}
	names := []string{} // not nil, which asks for all topics
	for _, address := range addresses {
		if legalTopic(address.Topic) {
			names = append(names, address.Topic)
			if !p.config.SendingTime {
				e.oldest[address.Topic] = address.Oldest
			}
		} else {
			e.Fail(checkTopic, fmt.Sprintf("%.100q", address.Topic), "Kafka's names have 1 to 249 characters of a-z A-Z 0-9 . _ -, so its rows fail",
				"correct the rows' topic, or OUTBOX_TOPIC")
		}
	}
	answer, err := p.cluster.ask(ctx, &metadata.Request{TopicNames: names, IncludeTopicAuthorizedOperations: true}, true)
	if err != nil {
		e.unreachable(strings.Join(p.config.Brokers, ", "), err)
		return e.List
	}
	response := answer.(*metadata.Response)
	p.cluster.learn(response)
	e.reached(ctx)
	e.idempotence(ctx)
	slices.SortFunc(response.Topics, func(a, b metadata.ResponseTopic) int { return strings.Compare(a.Name, b.Name) })
	var present []*metadata.ResponseTopic
	for i := range response.Topics {
		if t := &response.Topics[i]; e.topic(t) {
			present = append(present, t)
		}
	}
	e.settings(ctx, present)
	return e.List
}

// An examination gathers findings.
type examination struct {
	publisher *Publisher
	oldest    map[string]time.Time // by topic: when the first row that waits for it was inserted
	finding.List
}

// unreachable tells why a broker cannot be used.
func (e *examination) unreachable(subject string, err error) {
	link, ok := errors.AsType[*linkError](err)
	if !ok {
		e.Fail(checkReach, subject, err.Error(), "check that the broker runs, its address, and the network")
		return
	}
	check := checkReach
	if link.short == "login refused" || link.short == "credentials unusable" {
		check = checkAuthentication
	}
	found := link.found
	if link.err != nil {
		found += ": " + link.err.Error()
	}
	e.Fail(check, link.address, found, link.remedy)
}

// reached looks at each broker that the cluster names: the partitions it leads need it.
func (e *examination) reached(ctx context.Context) {
	p := e.publisher
	for _, b := range p.cluster.candidates() {
		if !p.cluster.named(b) {
			continue // a first address, such as a load balancer's
		}
		if _, err := b.ask(ctx, &apiversions.Request{}, true); err != nil {
			e.unreachable(b.address, err)
			continue
		}
		e.Well(checkReach, b.address, "answers")
	}
	switch c := p.config; {
	case c.SASL == nil && c.TLS == nil:
		e.Warn(checkAuthentication, "", "neither TLS nor a login is configured: anybody on the way can read and change the messages",
			"write kafka+tls://, where the cluster has a listener for it")
	case c.SASL == nil:
		e.Well(checkAuthentication, "", "TLS, without a SASL login")
	case c.TLS == nil:
		e.Warn(checkAuthentication, "", "the login succeeds, but without TLS its credentials or the messages can be read on the way",
			"write kafka+tls://, where the cluster has a listener for it")
	default:
		e.Well(checkAuthentication, "", "the login succeeds, over TLS")
	}
}

// idempotence looks whether the cluster gives a producer id.
func (e *examination) idempotence(ctx context.Context) {
	id, err := e.publisher.producerID(ctx)
	switch {
	case err != nil:
		e.Warn(checkIdempotence, "", "asking for a producer id failed: "+err.Error(), "look at the brokers' logs")
	case id == noProducer:
		e.Warn(checkIdempotence, "", "the cluster refuses idempotent producing, so after a lost answer messages may be appended twice",
			"grant IDEMPOTENT_WRITE on the cluster, or WRITE on the topics")
	default:
		e.Well(checkIdempotence, "", "a batch that is sent again is appended once")
	}
}

// operationWrite is the bit of WRITE in a set of allowed operations; operationsUnknown is the set of a
// broker that does not tell.
const (
	operationWrite    = 1 << 4
	operationsUnknown = -1 << 31
)

// topic looks at what the metadata says. It reports whether the topic exists.
func (e *examination) topic(t *metadata.ResponseTopic) bool {
	switch code := kafkago.Error(t.ErrorCode); code {
	case 0:
	case kafkago.UnknownTopicOrPartition:
		e.Fail(checkTopic, t.Name, "does not exist, or this client may not see it, so its rows are held",
			"create it, or grant DESCRIBE and WRITE on it")
		return false
	case kafkago.TopicAuthorizationFailed:
		e.Fail(checkPermission, t.Name, "this client may not see it, so its rows are held", "grant DESCRIBE and WRITE on it")
		return false
	default:
		e.Fail(checkTopic, t.Name, code.Error(), "look at the brokers' logs")
		return false
	}
	if allowed := t.TopicAuthorizedOperations; allowed != 0 && allowed != operationsUnknown && allowed&operationWrite == 0 {
		e.Fail(checkPermission, t.Name, "this client may not write to it, so its rows are held", "grant WRITE on it")
	}
	leaderless := 0
	for i := range t.Partitions {
		if t.Partitions[i].LeaderID < 0 {
			leaderless++
		}
	}
	if leaderless > 0 {
		e.Fail(checkTopic, t.Name, fmt.Sprintf("%d of its %d partitions have no leader, so their rows are held", leaderless, len(t.Partitions)),
			"bring back the brokers that hold them")
	} else {
		e.Well(checkTopic, t.Name, fmt.Sprintf("exists, with %d partitions", len(t.Partitions)))
	}
	return true
}
