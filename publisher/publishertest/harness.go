package publishertest

import (
	"testing"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A Harness is what the suite needs from one broker. Its methods are called from several subtests at once.
type Harness interface {
	// Open returns a new publisher that reaches the broker only through network. The suite closes the publisher.
	Open(t *testing.T, network *Network) publisher.Publisher

	// Topic creates a topic (a stream and its subject, a queue) for this test alone and returns its name. The topic is
	// removed when the test ends.
	Topic(t *testing.T) string

	// Unknown returns a legal name of a topic that does not exist, or "" if the broker has no unknown topics. In that
	// case the tests of unknown topics do not exist.
	Unknown(t *testing.T) string

	// Create creates a topic with a name that Unknown returned. It is removed when the test ends.
	Create(t *testing.T, topic string)

	// Illegal returns names that the broker can never have: too long, or with illegal characters.
	Illegal() []string

	// TooLarge returns the size in bytes of a payload that the broker refuses even when it is sent alone, or 0 if there
	// is no limit.
	TooLarge() int

	// Received waits until the topic holds at least n messages, and returns all that it holds, in order of arrival
	// (with several partitions: in order of arrival for each key). It fails the test after a minute at most. It may be
	// called again, and then returns all messages again.
	//
	// ID, Topic, Key, Payload, Headers (all that are on the wire) and Type are filled in as far as the broker carries
	// them. An absent key is nil, an empty key is not. If the broker distinguishes a null payload from an empty one,
	// only the null payload is nil. Otherwise no payload is nil.
	Received(t *testing.T, topic string, n int) []publisher.Message
}
