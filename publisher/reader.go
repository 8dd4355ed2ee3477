package publisher

import (
	"context"
	"time"
)

// A Reader is a Publisher that can read the messages that its broker holds.
type Reader interface {
	// Read calls do for each message that the broker now holds in the given topics, in the order of each
	// [Stored.Place]. It begins with the messages sent at about from, or earlier, and ends with those sent at about
	// until, or later. A zero time sets no bound. What a Stored points to is valid only during the call of do. The
	// result has an entry for each topic.
	Read(ctx context.Context, topics []string, from, until time.Time, do func(*Stored)) (map[string]Held, error)
}

// A Stored is a message as a broker holds it, without its body.
type Stored struct {
	Topic    string // empty if the broker does not say to which topic it was published
	Place    string // partition or stream within which messages have an order
	Position uint64 // position in that order
	Key      []byte // key of a Kafka record
	Headers  []Header
}

// Header returns the value of the header with the given name, or "" if there is none.
func (s *Stored) Header(name string) string {
	for _, h := range s.Headers {
		if h.Name == name {
			return h.Value
		}
	}
	return ""
}

// Held says which messages of a topic a broker still has.
type Held struct {
	Absent  bool      // there is no such topic, or no stream for it
	Unknown string    // reason why the broker cannot say what it holds; empty if it can
	Since   time.Time // time before which messages have been removed; zero if none have
	Lossy   string    // reason why later messages may have been removed too; empty if they are kept
}
