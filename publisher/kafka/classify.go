package kafka

import (
	kafkago "github.com/segmentio/kafka-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// An action is what happens to a batch after the broker's answer.
type action uint8

const (
	// accept: the batch is in the log.
	accept action = iota
	// divide: refused as a whole, perhaps for one record: halve it down to a single one.
	divide
	// retime: refused for the time of a record: give old ones the time of now.
	retime
	// shrink: as divide, and the partition takes no batch of this size.
	shrink
	// renew: the broker has lost or left the sequence: begin a new epoch and send again.
	renew
	// relocate: sent to the wrong broker: ask for the leader and send again, once.
	relocate
	// keep: perhaps in the log, perhaps not: send the same bytes again until that is known.
	keep
	// refuse: definitely not appended, and sending again now is of no use.
	refuse
)

// A verdict is what an error code of a produce response means.
type verdict struct {
	action action
	class  publisher.Class // of the messages, when the action does not help
	scope  publisher.Scope
	short  string
	unsure bool // although refused, the batch may be in the log
	quota  bool // a quota of the broker, which it keeps for all partitions that it leads

	examined bool // each record was looked at for itself: those that are refused alone say nothing of the broker
}

// Codes that kafka-go has no names for.
const (
	operationNotAttempted = kafkago.Error(55)
	transactionAbortable  = kafkago.Error(120)
)

// classify returns the verdict for the error code of one partition.
func classify(code kafkago.Error) verdict {
	answer := func(a action, class publisher.Class, scope publisher.Scope, short string) verdict {
		return verdict{action: a, class: class, scope: scope, short: short}
	}
	hold := func(a action, scope publisher.Scope, short string) verdict {
		return answer(a, publisher.Unavailable, scope, short)
	}
	unsure := func(a action, class publisher.Class, short string) verdict {
		return verdict{action: a, class: class, scope: publisher.ScopeMessage, short: short, unsure: true}
	}
	switch code {
	case 0,
		// The broker has appended this sequence before and forgotten at which offset.
		kafkago.DuplicateSequenceNumber:
		return verdict{action: accept}

	case
		// Above the topic's max.message.bytes, which counts the whole batch.
		kafkago.MessageSizeTooLarge,
		// The batch is larger than a segment of the log.
		kafkago.RecordListTooLarge:
		return answer(shrink, publisher.Permanent, publisher.ScopeMessage, "message too large")

	case
		// The topic takes no time so far away (message.timestamp.before/after.max.ms). The time is our
		// choice, and no row fails for it.
		kafkago.InvalidTimestamp:
		return answer(retime, publisher.Topology, publisher.ScopeTopic, "time refused")
	case
		// A record without a key in a compacted topic, or one that a broker-side schema refuses. The schema may be
		// what is wrong, and corrected in time.
		kafkago.InvalidRecord:
		v := answer(divide, publisher.Refused, publisher.ScopeMessage, "invalid record")
		v.examined = true
		return v
	case
		// Our checksum did not survive the way, or an old broker and a keyless record in a compacted
		// topic.
		kafkago.InvalidMessage,
		// A policy of the cluster's operator.
		kafkago.PolicyViolation:
		return answer(divide, publisher.Refused, publisher.ScopeMessage, "message refused")

	case
		// A gap: the log was truncated, and with it earlier batches.
		kafkago.OutOfOrderSequenceNumber,
		// The log has a newer epoch of this producer id.
		kafkago.InvalidProducerEpoch, kafkago.ProducerFenced,
		// The partition has forgotten the producer: retention, or an idle day.
		kafkago.UnknownProducerId, kafkago.InvalidProducerIDMapping,
		// The broker takes the producer for a transactional one. It is not: another id helps, in the end.
		kafkago.InvalidTransactionState, kafkago.TransactionCoordinatorFenced, transactionAbortable:
		return hold(renew, publisher.ScopeMessage, "sequence refused")

	case
		// Leadership has moved, perhaps while the append waited for its replicas; or the topic is so new
		// that the broker has yet to open the partition.
		kafkago.NotLeaderForPartition, kafkago.LeaderNotAvailable, kafkago.ReplicaNotAvailable,
		kafkago.FencedLeaderEpoch, kafkago.UnknownLeaderEpoch,
		// Deleted, or so new that the broker has not heard of it. The metadata tells which.
		kafkago.UnknownTopicOrPartition, kafkago.UnknownTopicID, kafkago.InconsistentTopicID,
		// The leader is shutting down.
		kafkago.NetworkException, kafkago.BrokerNotAvailable:
		return unsure(relocate, publisher.Unavailable, "no leader")
	case
		// The leader's disk has failed; another replica takes over.
		kafkago.KafkaStorageError:
		return unsure(relocate, publisher.Unavailable, "storage error")

	case
		// In the leader's log, but the replicas did not follow in time.
		kafkago.RequestTimedOut,
		// In the leader's log, and then replicas fell out of sync.
		kafkago.NotEnoughReplicasAfterAppend:
		return unsure(keep, publisher.Ambiguous, "not replicated yet")

	case
		// The coordinator of transactions is busy or moving: nothing that a record can help.
		kafkago.ConcurrentTransactions, kafkago.GroupCoordinatorNotAvailable, kafkago.NotCoordinatorForGroup, kafkago.GroupLoadInProgress,
		// The broker has given up on the request before it came to this partition.
		operationNotAttempted:
		return hold(refuse, publisher.ScopeMessage, "broker busy")
	case
		// Fewer replicas in sync than min.insync.replicas; checked before the append.
		kafkago.NotEnoughReplicas:
		return hold(refuse, publisher.ScopeMessage, "not enough replicas")
	case
		// No WRITE on this topic.
		kafkago.TopicAuthorizationFailed:
		return answer(refuse, publisher.Topology, publisher.ScopeTopic, "topic not allowed")
	case
		// The topic keeps an old format that knows neither headers nor sequences.
		kafkago.UnsupportedForMessageFormat:
		return answer(refuse, publisher.Topology, publisher.ScopeTopic, "old message format")
	case
		// A codec that this broker, or the topic's format, does not know.
		kafkago.UnsupportedCompressionType:
		return answer(refuse, publisher.Topology, publisher.ScopeTopic, "compression refused")
	case
		// A name that the cluster reserves, such as its internal topics.
		kafkago.InvalidTopic:
		return answer(refuse, publisher.Permanent, publisher.ScopeMessage, "illegal topic")
	case
		// The client as a whole: its rights, its quota, or a proxy that speaks another protocol.
		kafkago.ClusterAuthorizationFailed, kafkago.TransactionalIDAuthorizationFailed, kafkago.SASLAuthenticationFailed,
		kafkago.IllegalSASLState, kafkago.SecurityDisabled:
		return hold(refuse, publisher.ScopeDestination, "not authorized")
	case
		// A quota that is used up. (Most quotas are not refusals but pauses, see broker.throttle.)
		kafkago.ThrottlingQuotaExceeded:
		v := hold(refuse, publisher.ScopeMessage, "throttled")
		v.quota = true
		return v
	case kafkago.UnsupportedVersion, kafkago.InvalidRequest, kafkago.InvalidRequiredAcks:
		return hold(refuse, publisher.ScopeDestination, "request not understood")

	default:
		// Unknown server error and whatever later versions add. One record may be what breaks the
		// broker, so it is looked for, but no attempt is spent: it may as well be the broker.
		return unsure(divide, publisher.Unavailable, "broker error")
	}
}
