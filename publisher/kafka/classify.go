package kafka

import (
	kafkago "github.com/segmentio/kafka-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// An action is what is done with a batch after the broker's answer.
type action uint8

const (
	// accept: the batch is in the log.
	accept action = iota
	// divide: refused as a whole, perhaps because of one record. Halve the batch until single records are sent.
	divide
	// retime: refused because of the time of a record. Give old records the current time.
	retime
	// renew: the broker has lost the sequence or no longer accepts it. Begin a new epoch and send again.
	renew
	// relocate: sent to the wrong broker. Ask for the leader and send again, for a second at most.
	relocate
	// keep: perhaps in the log, perhaps not. Send the same bytes again until the outcome is known.
	keep
	// refuse: definitely not appended, and sending again now would not help.
	refuse
)

// A verdict is the meaning of an error code in a produce response.
type verdict struct {
	action action
	class  publisher.Class // class of the messages if the action does not help
	scope  publisher.Scope
	short  string
	unsure bool // the batch may be in the log although it was refused
}

// Error codes for which kafka-go has no names.
const (
	operationNotAttempted = kafkago.Error(55)
	transactionAbortable  = kafkago.Error(120)
)

// classify returns the verdict for the error code of one partition. Two questions decide: whether the batch may be in
// the log (unsure), and who can change the outcome: the row, the owner of the topic, or the broker. Only a definite
// refusal of the record itself spends an attempt. The names in the comments are those of kafka-go; TestClassify lists
// every code of the protocol.
func classify(code kafkago.Error) verdict {
	switch code {
	// DuplicateSequenceNumber: the broker has appended this sequence before and has forgotten the offset.
	case 0, kafkago.DuplicateSequenceNumber:
		return verdict{action: accept}

	// Above the topic's max.message.bytes, which counts the whole batch, or larger than a segment of the log.
	case kafkago.MessageSizeTooLarge, kafkago.RecordListTooLarge:
		return verdict{divide, publisher.Permanent, publisher.ScopeMessage, "message too large", false}

	// A record's time is too far from the current time for the topic (message.timestamp.before/after.max.ms). The time
	// is the relay's choice, so no row fails because of it.
	case kafkago.InvalidTimestamp:
		return verdict{retime, publisher.Topology, publisher.ScopeTopic, "time refused", false}

	// A record without a key in a compacted topic, a record that a schema on the broker or a policy of the cluster's
	// operator refuses, or a checksum that did not survive the transport. What refuses it may be corrected in time.
	case kafkago.InvalidRecord, kafkago.InvalidMessage, kafkago.PolicyViolation:
		return verdict{divide, publisher.Refused, publisher.ScopeMessage, "message refused", false}

	// A gap, since the log was truncated and earlier batches were lost with it; a newer epoch of this producer id in
	// the log; or a producer that the partition has forgotten, because of retention or a day without use. Some brokers
	// take the producer for a transactional one: another id helps in the end.
	case kafkago.OutOfOrderSequenceNumber, kafkago.InvalidProducerEpoch, kafkago.ProducerFenced,
		kafkago.UnknownProducerId, kafkago.InvalidProducerIDMapping, kafkago.InvalidTransactionState,
		kafkago.TransactionCoordinatorFenced, transactionAbortable:
		return verdict{renew, publisher.Unavailable, publisher.ScopeMessage, "sequence refused", false}

	// Leadership has moved, perhaps while the append waited for its replicas, so that the new leader may have the batch
	// or not; the leader is shutting down, or its disk has failed; or the topic is deleted, or so new that the broker
	// has not opened the partition yet. The metadata shows which.
	case kafkago.NotLeaderForPartition, kafkago.LeaderNotAvailable, kafkago.ReplicaNotAvailable,
		kafkago.FencedLeaderEpoch, kafkago.UnknownLeaderEpoch, kafkago.UnknownTopicOrPartition, kafkago.UnknownTopicID,
		kafkago.InconsistentTopicID, kafkago.NetworkException, kafkago.BrokerNotAvailable, kafkago.KafkaStorageError:
		return verdict{relocate, publisher.Unavailable, publisher.ScopeMessage, "no leader", true}

	// In the leader's log, but the replicas did not follow in time, or fell out of sync afterwards.
	case kafkago.RequestTimedOut, kafkago.NotEnoughReplicasAfterAppend:
		return verdict{keep, publisher.Ambiguous, publisher.ScopeMessage, "not replicated yet", true}

	// The coordinator of transactions is busy or moving, which a record cannot change, or the broker gave up the
	// request before it reached this partition.
	case kafkago.ConcurrentTransactions, kafkago.GroupCoordinatorNotAvailable, kafkago.NotCoordinatorForGroup,
		kafkago.GroupLoadInProgress, kafkago.ThrottlingQuotaExceeded, operationNotAttempted:
		return verdict{refuse, publisher.Unavailable, publisher.ScopeMessage, "broker busy", false}

	// Fewer replicas in sync than min.insync.replicas; checked before the append.
	case kafkago.NotEnoughReplicas:
		return verdict{refuse, publisher.Unavailable, publisher.ScopeMessage, "not enough replicas", false}

	// No WRITE on this topic.
	case kafkago.TopicAuthorizationFailed:
		return verdict{refuse, publisher.Topology, publisher.ScopeTopic, "topic not allowed", false}

	// The topic uses an old format that has neither headers nor sequences, or does not take the codec.
	case kafkago.UnsupportedForMessageFormat, kafkago.UnsupportedCompressionType:
		return verdict{refuse, publisher.Topology, publisher.ScopeTopic, "format refused", false}

	// A name that the cluster reserves, such as its internal topics.
	case kafkago.InvalidTopic:
		return verdict{refuse, publisher.Permanent, publisher.ScopeMessage, "illegal topic", false}

	// The client as a whole is refused: its rights, its quota, or a proxy that speaks another protocol.
	case kafkago.ClusterAuthorizationFailed, kafkago.TransactionalIDAuthorizationFailed,
		kafkago.SASLAuthenticationFailed, kafkago.IllegalSASLState, kafkago.SecurityDisabled:
		return verdict{refuse, publisher.Unavailable, publisher.ScopeDestination, "not authorized", false}

	case kafkago.UnsupportedVersion, kafkago.InvalidRequest, kafkago.InvalidRequiredAcks:
		return verdict{refuse, publisher.Unavailable, publisher.ScopeDestination, "request not understood", false}

	// An unknown server error, or a code that later versions add. One record may be what breaks the broker, so the
	// batch is divided to find it. No attempt is spent, because the broker may equally be at fault.
	default:
		return verdict{divide, publisher.Unavailable, publisher.ScopeMessage, "broker error", true}
	}
}
