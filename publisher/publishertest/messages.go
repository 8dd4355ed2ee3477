package publishertest

import (
	"crypto/rand"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// patience is how long a test waits for something that must happen before it fails.
const patience = 30 * time.Second

// promptly is how long an answer may take that does not depend on anything else.
const promptly = 5 * time.Second

// message returns a new message of about 400 bytes, which does not compress well.
func message(topic, key string) publisher.Message {
	id := newID()
	return publisher.Message{
		ID: id, DedupID: id, Topic: topic, Key: []byte(key),
		Payload:  fmt.Appendf(nil, `{"key": %q, "noise": "%x"}`, key, noise(128)),
		Type:     "application/json",
		Inserted: time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC),
	}
}

// Addresses returns addresses with the given topics.
func Addresses(topics ...string) []publisher.Address {
	var addresses []publisher.Address
	for _, topic := range topics {
		addresses = append(addresses, publisher.Address{Topic: topic})
	}
	return addresses
}

// messages returns n messages that use the keys and the topics in turn.
func messages(n, keys int, topics ...string) []publisher.Message {
	all := make([]publisher.Message, n)
	for i := range all {
		all[i] = message(topics[i%len(topics)], fmt.Sprintf("key-%d", i%keys))
	}
	return all
}

// newID returns a random UUID.
func newID() string {
	b := noise(16)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func noise(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

func clone(messages []publisher.Message) []publisher.Message {
	all := slices.Clone(messages)
	for i := range all {
		all[i].Key = slices.Clone(all[i].Key)
		all[i].Payload = slices.Clone(all[i].Payload)
		all[i].Headers = slices.Clone(all[i].Headers)
	}
	return all
}

func overwrite(b []byte) {
	for i := range b {
		b[i] = '!'
	}
}

// expect fails the test at the first answer whose class is not one of those given.
func expect(t *testing.T, answers []error, classes ...publisher.Class) {
	t.Helper()
	for i, err := range answers {
		if class := publisher.ClassOf(err); !slices.Contains(classes, class) {
			t.Fatalf("answer %d of %d is %v (%v), not one of %v", i, len(answers), class, err, classes)
		}
	}
}

// expectEach fails the test at the first answer that does not have the class at its index.
func expectEach(t *testing.T, answers []error, classes ...publisher.Class) {
	t.Helper()
	for i, err := range answers {
		if class := publisher.ClassOf(err); class != classes[i] {
			t.Fatalf("answer %d is %v (%v), not %v", i, class, err, classes[i])
		}
	}
}

// expectSome fails the test if no answer has the given class.
func expectSome(t *testing.T, answers []error, class publisher.Class) {
	t.Helper()
	if !slices.ContainsFunc(answers, func(err error) bool { return publisher.ClassOf(err) == class }) {
		t.Fatalf("none of %d answers is %v", len(answers), class)
	}
}

// notAccepted returns the messages that were not accepted.
func notAccepted(messages []publisher.Message, answers []error) []publisher.Message {
	var left []publisher.Message
	for i := range messages {
		if publisher.ClassOf(answers[i]) != publisher.Accepted {
			left = append(left, messages[i])
		}
	}
	return left
}

func firstError(answers []error) error {
	for _, err := range answers {
		if publisher.ClassOf(err) != publisher.Accepted {
			return err
		}
	}
	return nil
}

// within returns the result of the function, or fails the test if the function takes longer than limit. The function
// must not end the test.
func within[T any](t *testing.T, limit time.Duration, what string, f func() T) T {
	t.Helper()
	result := make(chan T, 1)
	go func() { result <- f() }()
	select {
	case r := <-result:
		return r
	case <-time.After(limit):
		t.Fatalf("%s takes more than %v", what, limit)
		panic("unreachable")
	}
}
