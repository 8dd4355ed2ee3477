package kafka

import (
	"testing"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// Every code of a produce response that the protocol has, and the class of the messages if the action did not help.
func TestClassify(t *testing.T) {
	t.Parallel()
	const (
		permanent   = publisher.Permanent
		refused     = publisher.Refused
		topology    = publisher.Topology
		unavailable = publisher.Unavailable
		ambiguous   = publisher.Ambiguous
		destination = publisher.ScopeDestination
		topic       = publisher.ScopeTopic
		message     = publisher.ScopeMessage
	)
	for _, test := range []struct {
		code   kafkago.Error
		action action
		class  publisher.Class
		scope  publisher.Scope
	}{
		{0, accept, publisher.Accepted, destination},
		{kafkago.DuplicateSequenceNumber, accept, publisher.Accepted, destination},

		{kafkago.MessageSizeTooLarge, divide, permanent, message},
		{kafkago.RecordListTooLarge, divide, permanent, message},
		{kafkago.InvalidTimestamp, retime, topology, topic},
		{kafkago.InvalidRecord, divide, refused, message},
		{kafkago.InvalidMessage, divide, refused, message},
		{kafkago.PolicyViolation, divide, refused, message},
		{kafkago.Unknown, divide, unavailable, message},
		{kafkago.Error(9999), divide, unavailable, message},

		{kafkago.OutOfOrderSequenceNumber, renew, unavailable, message},
		{kafkago.InvalidProducerEpoch, renew, unavailable, message},
		{kafkago.ProducerFenced, renew, unavailable, message},
		{kafkago.UnknownProducerId, renew, unavailable, message},
		{kafkago.InvalidProducerIDMapping, renew, unavailable, message},
		{kafkago.InvalidTransactionState, renew, unavailable, message},
		{kafkago.TransactionCoordinatorFenced, renew, unavailable, message},
		{transactionAbortable, renew, unavailable, message},

		{kafkago.ConcurrentTransactions, refuse, unavailable, message},
		{kafkago.GroupCoordinatorNotAvailable, refuse, unavailable, message},
		{kafkago.NotCoordinatorForGroup, refuse, unavailable, message},
		{kafkago.GroupLoadInProgress, refuse, unavailable, message},
		{operationNotAttempted, refuse, unavailable, message},
		{kafkago.TransactionalIDAuthorizationFailed, refuse, unavailable, destination},
		{kafkago.UnsupportedCompressionType, refuse, topology, topic},

		{kafkago.UnknownTopicOrPartition, relocate, unavailable, message},
		{kafkago.LeaderNotAvailable, relocate, unavailable, message},
		{kafkago.NotLeaderForPartition, relocate, unavailable, message},
		{kafkago.BrokerNotAvailable, relocate, unavailable, message},
		{kafkago.ReplicaNotAvailable, relocate, unavailable, message},
		{kafkago.NetworkException, relocate, unavailable, message},
		{kafkago.KafkaStorageError, relocate, unavailable, message},
		{kafkago.FencedLeaderEpoch, relocate, unavailable, message},
		{kafkago.UnknownLeaderEpoch, relocate, unavailable, message},
		{kafkago.UnknownTopicID, relocate, unavailable, message},
		{kafkago.InconsistentTopicID, relocate, unavailable, message},

		{kafkago.RequestTimedOut, keep, ambiguous, message},
		{kafkago.NotEnoughReplicasAfterAppend, keep, ambiguous, message},

		{kafkago.NotEnoughReplicas, refuse, unavailable, message},
		{kafkago.TopicAuthorizationFailed, refuse, topology, topic},
		{kafkago.UnsupportedForMessageFormat, refuse, topology, topic},
		{kafkago.InvalidTopic, refuse, permanent, message},
		{kafkago.ClusterAuthorizationFailed, refuse, unavailable, destination},
		{kafkago.SASLAuthenticationFailed, refuse, unavailable, destination},
		{kafkago.IllegalSASLState, refuse, unavailable, destination},
		{kafkago.SecurityDisabled, refuse, unavailable, destination},
		{kafkago.ThrottlingQuotaExceeded, refuse, unavailable, message},
		{kafkago.UnsupportedVersion, refuse, unavailable, destination},
		{kafkago.InvalidRequest, refuse, unavailable, destination},
		{kafkago.InvalidRequiredAcks, refuse, unavailable, destination},
	} {
		got := classify(test.code)
		if got.action != test.action || got.class != test.class || got.scope != test.scope {
			t.Errorf("%v: action %d, %v, scope %d; want action %d, %v, scope %d",
				test.code, got.action, got.class, got.scope, test.action, test.class, test.scope)
		}
		// If it is not certain that a batch was refused before the append, its sequence must not be given to another
		// batch.
		if got.unsure != (test.action == relocate || test.action == keep || test.action == divide &&
			test.class == unavailable) {
			t.Errorf("%v: unsure is %t", test.code, got.unsure)
		}
		if got.action != accept && got.short == "" {
			t.Errorf("%v has no short words", test.code)
		}
	}
}

func TestCheckTopic(t *testing.T) {
	t.Parallel()
	for _, name := range (&harness{}).Illegal() {
		if checkTopic(name) == nil {
			t.Errorf("%.20q is not a legal topic", name)
		}
	}
	for _, name := range []string{"a", "A-z_0.9", "...", "-"} {
		if err := checkTopic(name); err != nil {
			t.Errorf("%q is a legal topic: %v", name, err)
		}
	}
}
