// Package publisher states what the relay expects of a message broker's client: one answer for each
// message, and order for each key. The brokers live in the packages below it; publishertest holds
// the suite that each of them passes.
package publisher

import "context"

// A Publisher sends messages to one broker. It is safe for concurrent use; the relay never has one
// ordering key in two calls at the same time.
//
// A Publisher is made without reaching its broker, connects when it is first used, and reconnects
// for ever with backoff and jitter.
type Publisher interface {
	// Publish returns once the broker has answered for every message, or ctx has ended: one error
	// for each message, in the order given. nil means that the broker has durably accepted the
	// message, and so does a [*Duplicate]; [ClassOf] tells what any other answer means.
	//
	// Of each ordering key the accepted messages are a prefix of those given, also when the key's
	// messages go to several topics: behind one that was not accepted the key's others are
	// [NotAttempted]. Messages without a key have no order.
	//
	// Nothing waits inside Publish for a topic, partition or connection that cannot be served now:
	// its messages come back at once as [Topology] or [Unavailable], so that they do not delay the
	// others. Messages that were sent to a topic that gives no answers for about a second, while the broker answers
	// otherwise, come back too: as [Ambiguous] with the topic as their scope, or as [Unavailable] if the publisher goes
	// on waiting and gives the answer to the call that has the message next.
	//
	// When ctx ends, messages that were sent and have no answer come back as [Ambiguous], or,
	// where the broker has answered others since and only their topic can be at fault, as [Unavailable] with Repeats;
	// those that were not sent as [NotAttempted]; no message is written to the broker after that.
	//
	// The messages and everything they point to belong to the caller and are not kept after Publish
	// has returned, except by a publisher that must send the very same bytes again to be safe, which
	// then keeps a copy.
	Publish(ctx context.Context, messages []Message) []error

	// Ping reports whether the broker can be reached and would take messages now, by asking it
	// (connecting first if need be). It is called every few seconds while nothing is published.
	// The error names the broker's address without secrets and says what to do.
	Ping(ctx context.Context) error

	// Close ends the connections. Calls of Publish that are under way return, their unanswered
	// messages as Ambiguous; later ones answer Unavailable for every message. Close waits no longer
	// than about a second for the broker.
	Close() error
}

// A HeaderChecker is a Publisher that cannot carry every header that [Message.CheckHeaders] lets pass. The error says why it cannot carry one.
type HeaderChecker interface {
	CheckHeader(h *Header) error
}
