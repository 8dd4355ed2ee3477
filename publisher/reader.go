package publisher

import (
	"context"
	"time"
)

// A Reader is a Publisher that can read what its broker holds.
type Reader interface {
	// Read calls a function for each message that the broker holds in some topics, as of now, in the order of each [Stored.Place]. It begins
	// with those that were sent at about from, if not before, and ends with those of about until, if not later; a zero time is no bound. What
	// a Stored points to is valid during the call only. The answer has an entry for each topic.
	Read(ctx context.Context, topics []string, from, until time.Time, do func(*Stored)) (map[string]Held, error)
}

// A Stored is a message as a broker holds it, without its body.
type Stored struct {
	Topic    string
	Place    string // where messages have an order: a partition or a stream
	Position uint64 // in that order
	Key      []byte // of a Kafka record
	Headers  []Header
}

// Header returns the value of a header, empty if there is none of that name.
func (s *Stored) Header(name string) string {
	for _, h := range s.Headers {
		if h.Name == name {
			return h.Value
		}
	}
	return ""
}

// Held says what of a topic's messages a broker still has.
type Held struct {
	Absent bool      // there is no such topic, or no stream for it
	Since  time.Time // older ones have been removed; zero when none has
	Lossy  string    // why younger ones may have been removed too, empty when they are kept
}
