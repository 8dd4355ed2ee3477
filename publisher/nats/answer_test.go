package nats

import (
	"errors"
	"testing"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// TestMeanings fixes the consequence of each of JetStream's error codes. The names are those of nats-server's
// errors.json.
func TestMeanings(t *testing.T) {
	const (
		refused     = publisher.Refused
		permanent   = publisher.Permanent
		topology    = publisher.Topology
		unavailable = publisher.Unavailable
		ambiguous   = publisher.Ambiguous
		destination = publisher.ScopeDestination
		topic       = publisher.ScopeTopic
	)
	pinned := map[int]struct {
		name  string
		code  int
		class publisher.Class
		scope publisher.Scope
	}{
		10002: {"JSAccountResourcesExceededErr", 400, unavailable, topic},
		10008: {"JSClusterNotAvailErr", 503, unavailable, topic},
		10009: {"JSClusterNotLeaderErr", 500, unavailable, topic},
		10023: {"JSInsufficientResourcesErr", 503, unavailable, topic},
		10028: {"JSMemoryResourcesExceededErr", 500, unavailable, topic},
		10035: {"JSNoAccountErr", 503, topology, destination},
		10039: {"JSNotEnabledForAccountErr", 503, topology, destination},
		10047: {"JSStorageResourcesExceededErr", 500, unavailable, topic},
		10054: {"JSStreamMessageExceedsMaximumErr", 400, permanent, 0},
		10059: {"JSStreamNotFoundErr", 404, topology, topic},
		10060: {"JSStreamNotMatchErr", 400, topology, topic},
		10063: {"JSStreamSequenceNotMatchErr", 503, ambiguous, topic},
		10076: {"JSNotEnabledErr", 503, topology, destination},
		10077: {"JSStreamStoreFailedF", 503, unavailable, topic},
		10097: {"JSStreamHeaderExceedsMaximumErr", 400, permanent, 0},
		10109: {"JSStreamSealedErr", 400, topology, topic},
		10165: {"JSMessageTTLInvalidErr", 400, permanent, 0},
		10166: {"JSMessageTTLDisabledErr", 400, topology, publisher.ScopeMessage},
		10172: {"JSMessageCounterBrokenErr", 400, topology, topic},
		10118: {"JSStreamOfflineErr", 500, unavailable, topic},
		10120: {"JSNoLimitsErr", 400, topology, topic},
		10158: {"JSStreamDuplicateMessageConflict", 409, ambiguous, publisher.ScopeMessage},
		10167: {"JSStreamTooManyRequests", 429, unavailable, topic},
		10169: {"JSMessageIncrMissingErr", 400, topology, topic},
		10194: {"JSStreamOfflineReasonErrF", 500, unavailable, topic},
	}
	for code := range meanings {
		if _, ok := pinned[code]; !ok {
			t.Errorf("the meaning of %d is not pinned", code)
		}
	}
	// Codes that are not in the table are judged by their status.
	unknown := pinned[0]
	unknown.name, unknown.code, unknown.class = "JSStreamWrongLastSequenceErrF", 400, refused
	pinned[10071] = unknown
	unknown.name, unknown.code, unknown.class = "unknown, bad request", 499, refused
	pinned[99995] = unknown
	unknown.name, unknown.code, unknown.class, unknown.scope = "unknown, server error", 500, unavailable, topic
	pinned[99996] = unknown
	unknown.name, unknown.code = "unknown, another server error", 599
	pinned[99997] = unknown
	unknown.name, unknown.code = "unknown, not able to serve", 503
	pinned[99998] = unknown
	unknown.name, unknown.code = "unknown, too many requests", 429
	pinned[99999] = unknown

	for code, want := range pinned {
		got := ack{refusal: &apiError{
			Code: want.code, ErrCode: code,
			Description: "as the server says",
		}}.answer(&publisher.Message{Topic: "orders"}, nil)
		answer, ok := errors.AsType[*publisher.Error](got)
		if !ok {
			t.Errorf("%s (%d): no answer but %v", want.name, code, got)
			continue
		}
		if answer.Class != want.class || answer.Scope != want.scope {
			t.Errorf("%s (%d) is %v with scope %d, want %v with scope %d", want.name, code, answer.Class, answer.Scope,
				want.class, want.scope)
		}
		if answer.Short == "" {
			t.Errorf("%s (%d) has no short form", want.name, code)
		}
	}
}

func TestAnswers(t *testing.T) {
	small, large := &publisher.Message{Topic: "orders"},
		&publisher.Message{Topic: "orders", Payload: make([]byte, recordLimit+1)}
	full := ack{refusal: &apiError{Code: 503, ErrCode: 10077, Description: "message to large"}}
	for _, test := range []struct {
		name    string
		ack     ack
		message *publisher.Message
		class   publisher.Class
	}{
		{"stored", ack{}, small, publisher.Accepted},
		{"full", full, small, publisher.Unavailable},
		{"beyond what a file store can hold", full, large, publisher.Permanent},
	} {
		if got := publisher.ClassOf(test.ack.answer(test.message, nil)); got != test.class {
			t.Errorf("%s: %v, want %v", test.name, got, test.class)
		}
	}
}
