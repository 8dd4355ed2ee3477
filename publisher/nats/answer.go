package nats

import (
	"fmt"

	"github.com/outbox-relay/outbox-relay/internal/setting"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// A meaning is what one of JetStream's error codes says about a message.
type meaning struct {
	class publisher.Class
	scope publisher.Scope
	short string
	hint  string // what to do, or what to know; may be empty
}

// meanings holds the error codes that may answer a publish, as nats-server's errors.json names them, except those whose
// status is enough: a server that is full (10023, 10028, 10047), throttles (10167), or is between leaders or away
// (10008, 10009, 10118, 10194). Most are sent by its stream.go and jetstream_cluster.go. Limits and failures have the
// scope of one topic and the fate of its stream, even if they reach further. Another stream may have another account
// tier, storage type or leader, and its own messages will show whether it is affected.
var meanings = map[int]meaning{
	// These concern the message alone. Another row may fit.
	10054: {publisher.Permanent, 0, "message too large", "the stream's max_msg_size"},
	10097: {publisher.Permanent, 0, "headers too large", ""},

	// The row's own Nats-TTL. The stream can be configured to accept it. Until then the rows that have one wait, even
	// if it is illegal.
	10165: {
		publisher.Permanent, 0, "TTL refused",
		"write a number of seconds, a duration of a second or more such as 36h, or never into the header Nats-TTL",
	},
	10166: {
		publisher.Topology, publisher.ScopeMessage, "no TTLs",
		"the row has the header Nats-TTL: allow message TTLs in the stream (allow_msg_ttl)",
	},

	// The stream does not exist, is not the expected one, or takes no such messages.
	10059: missing("no stream", "create it"),
	10060: missing("wrong stream", "another stream than expected takes the subject"),
	10109: missing("stream sealed", "the stream is read-only for ever: move the subject to another"),
	10120: missing("no account limits", "give the account a tier for the stream's replicas"),
	10169: missing("counter stream", "the stream takes counters only"),
	10172: missing("counter stream", "the stream's counter is broken"),
	// JetStream as a whole is missing, so no subject of the account can work.
	10035: {publisher.Topology, publisher.ScopeDestination, "no JetStream", "the server does not know the account"},
	10039: {publisher.Topology, publisher.ScopeDestination, "no JetStream", "enable JetStream for the account"},
	10076: {publisher.Topology, publisher.ScopeDestination, "no JetStream", "enable JetStream in the server"},

	// The storage is full. A stream with discard new answers "store failed" at one of its limits (messages, bytes,
	// messages per subject); so does a stream whose disk has failed.
	10077: away("stream full", "make room in the stream or raise its limits"),
	10002: away("account full", "make room in the account or raise its limits"),

	// The leader's log and its store disagree. The stream is rebuilt from the log, which holds the message.
	10063: {publisher.Ambiguous, publisher.ScopeTopic, "stream resetting", ""},
	// An earlier copy with the same id is being replicated. It is not yet known whether it will be stored.
	10158: {publisher.Ambiguous, publisher.ScopeMessage, "duplicate in progress", "an earlier copy is not stored yet"},
}

// missing is the meaning of a code for a stream that cannot take the messages of a topic as it is. Its rows wait for
// somebody to change it.
func missing(short, hint string) meaning {
	return meaning{publisher.Topology, publisher.ScopeTopic, short, hint}
}

// away is the meaning of a code for a stream that does not take the messages of a topic now. Its rows wait for it to
// come back by itself, or for room.
func away(short, hint string) meaning {
	return meaning{publisher.Unavailable, publisher.ScopeTopic, short, hint}
}

// recordLimit is the maximum record size of a file store, including headers (rlBadThresh in filestore.go). Above it, a
// server answers "store failed", as if the stream were full. Rows above it would otherwise be tried for ever, and hold
// their topic.
const recordLimit = 32 << 20

// sharedIDs returns what to do about a duplicate that was not sent before. Such a row is lost to consumers although it
// counts as relayed, so the relay counts it (outbox_relay_unexpected_duplicates_total) and names the stream.
func sharedIDs(names setting.Names) string {
	return "if another table or service publishes to it with the same Nats-Msg-Ids, give each a stream of its own " +
		"or, for ids that are not uuids, a value of its own for " + names.Of("DedupPrefix")
}

// accepted reports whether the stream has the message.
func accepted(err error) bool { return err == nil || publisher.ClassOf(err) == publisher.Accepted }

// answer returns the message's answer, or nil if it was stored. A duplicate is an acceptance for the caller; whether it
// was to be expected, the relay knows.
func (a ack) answer(m *publisher.Message, names setting.Names) error {
	switch {
	case a.duplicate:
		return &publisher.Duplicate{Stream: a.stream, Remedy: sharedIDs(names)}
	case a.refusal == nil:
		return nil
	}
	meaning := a.refusal.meaning()
	// The same code comes for a full stream, for which rows wait. This row would wait for ever.
	if a.refusal.ErrCode == errStoreFailed && m.Size() > recordLimit {
		meaning = meanings[10054]
		meaning.hint = "a stream on disk takes 32 MiB at most"
	}
	hint := meaning.hint
	if hint != "" {
		hint = ": " + hint
	}
	return &publisher.Error{
		Class: meaning.class, Scope: meaning.scope, Short: meaning.short,
		Err: fmt.Errorf("JetStream did not take the message: %s (error %d)%s",
			a.refusal.Description, a.refusal.ErrCode, hint),
	}
}

// meaning returns the meaning of the code. An unknown code is judged by its status: a server that is busy, or has
// failed, implies nothing about the message. Any other refusal spends an attempt.
func (e *apiError) meaning() meaning {
	if known, ok := meanings[e.ErrCode]; ok {
		return known
	}
	switch {
	case e.Code == 429, e.Code >= 500 && e.Code <= 599:
		return away("JetStream unavailable", "see whether its servers are there and have room")
	default:
		return meaning{publisher.Refused, 0, "refused", ""}
	}
}

// noStream is the answer for messages to a subject on which nothing listens. The server's answer is the same if the
// stream is there but cannot be reached, so the text names both.
func noStream(subject string) error {
	return publisher.TopologyError("no stream",
		"no stream takes the subject %.128q: create one, or add the subject to one; "+
			"if one of another account or behind a leaf node does, see that it can be reached", subject)
}

// unheard is the answer for a message to a subject on which nothing listens. Either no stream takes the subject, or its
// stream has no leader because most of its servers are away. JetStream is asked which of the two it is, and the answer
// is known from the second message on. A stream that is only without a leader comes back by itself, and its rows must
// not be reported as rows without a stream.
func (c *call) unheard(subject string) error {
	s := c.link.ask(subject, soon)
	if s == nil || s.name == "" && !s.away {
		return noStream(subject)
	}
	err := publisher.UnavailableError(publisher.ScopeTopic, "no leader",
		"nobody answers for the subject %.128q, although JetStream does not say that no stream takes it: "+
			"most of the servers of its stream are away", subject)
	return publisher.WithFate(err, s.fate())
}

// notPermitted is the answer for messages to a subject to which the server does not let the user publish. The right may
// be granted while the connection lives, so nothing is remembered of it.
func notPermitted(subject string) error {
	return publisher.TopologyError("not permitted",
		"the NATS user may not publish to %.128q: grant it publish on that subject", subject)
}
