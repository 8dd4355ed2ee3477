// Package publisher defines what the relay expects from the client of a message broker: one answer for each message,
// and order within each key. The packages below this one implement it for each broker. Package publishertest holds the
// test suite that each of them passes.
package publisher

import "context"

// A Publisher sends messages to one broker. It is safe for concurrent use. The relay never has one ordering key in two
// calls at the same time.
//
// Creating a Publisher does not reach its broker. The Publisher connects when it is first used, and reconnects for ever
// with backoff and jitter.
type Publisher interface {
	// Publish returns once the broker has answered for every message, or once ctx has ended. It returns one error for
	// each message, in the order given. An answer of nil means that the broker has durably accepted the message, and so
	// does a [*Duplicate]. For any other answer, [ClassOf] returns the meaning. If the broker has forced the publisher
	// to send a message again within the call, the answer is [Republished].
	//
	// Of each ordering key, the accepted messages are a prefix of those given, even if the messages of the key go to
	// several topics. After a message that was not accepted, the other messages of its key are [NotAttempted]. Messages
	// without a key have no order.
	//
	// Publish does not wait for a topic, partition or connection that cannot be served now. Its messages come back at
	// once as [Topology] or [Unavailable], so that they do not delay the others. If a topic has given no answer for
	// about a second while the broker answers otherwise, the messages sent to it come back too. They come back as
	// [Ambiguous] with the topic as their scope, or as [Unavailable] if the publisher continues to wait and gives the
	// answer to the next call that has the message.
	//
	// When ctx ends, messages that were sent and have no answer come back as [Ambiguous]. If the broker has answered
	// other messages since, and only their topic can be at fault, they come back as [Unavailable] with Repeats.
	// Messages that were not sent come back as [NotAttempted]. No message is written to the broker after that. A call
	// whose ctx comes from [WithStop] sends nothing more once its stop is closed.
	//
	// The messages and everything they point to belong to the caller. They are not kept after Publish has returned. The
	// exception is a publisher that must send the very same bytes again to be safe, which keeps a copy.
	Publish(ctx context.Context, messages []Message) []error

	// Ping asks the broker whether it can be reached and would take messages now, and connects first if needed. It is
	// called every few seconds while nothing is published. The error names the broker's address without secrets and
	// says what to do.
	Ping(ctx context.Context) error

	// Close ends the connections. Calls of Publish that are under way return, with their unanswered messages as
	// Ambiguous. Later calls answer Unavailable for every message. Close waits about a second for the broker at most.
	Close() error
}

// A HeaderChecker is a Publisher that cannot carry every header that [Message.CheckHeaders] allows. CheckHeader returns
// an error that says why the header cannot be carried, or nil.
type HeaderChecker interface {
	CheckHeader(h *Header) error
}

// Tokens is a source of tokens for a login to a broker (OAuth 2.0).
type Tokens interface {
	// Token returns the present token. Its error must not show secrets.
	Token(context.Context) (string, error)
	// Refused is called when a broker refuses the token, or an operation that relies on it.
	Refused(token string)
}
