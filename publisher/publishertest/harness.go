package publishertest

import (
	"os"
	"testing"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A Harness is what the suite needs from one broker. Its methods are called from several subtests at
// once.
type Harness interface {
	// Open returns a new publisher that reaches the broker through network only. The suite closes it.
	Open(t *testing.T, network *Network) publisher.Publisher

	// Topic makes a topic (a stream and its subject, a queue) for this test alone and returns its
	// name. It is removed when the test ends.
	Topic(t *testing.T) string

	// Unknown returns a legal name that nobody has made, or "" when the broker has no unknown topics:
	// then those tests do not exist.
	Unknown(t *testing.T) string

	// Create makes a topic of a name that Unknown returned. It is removed when the test ends.
	Create(t *testing.T, topic string)

	// Illegal returns names that the broker could never have: too long, with illegal characters.
	Illegal() []string

	// TooLarge returns the size in bytes of a payload that the broker refuses even when sent alone,
	// or 0 when there is no limit.
	TooLarge() int

	// Received waits until the topic holds at least n messages, fails the test after a minute at most,
	// and returns all that it holds, in order of arrival (with several partitions: of each key). It
	// may be called again and then returns them all again.
	//
	// ID, Topic, Key, Payload, Headers (all on the wire) and Type are filled in as far as the broker
	// carries them; an absent key is nil, an empty one is not. Where the broker can tell a null
	// payload from an empty one, only the former is nil; elsewhere none is.
	Received(t *testing.T, topic string, n int) []publisher.Message
}

// Endpoint returns the address of a real service from the environment variable of that name
// (TEST_KAFKA_URL and so on), or fails the test with the remedy.
func Endpoint(t testing.TB, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("%s is not set: run `make test`, or start the services and `eval \"$(dev/services.sh env)\"`", name)
	}
	return value
}
