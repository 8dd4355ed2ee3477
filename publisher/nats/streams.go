package nats

import (
	"strings"
	"sync"
	"time"
)

const (
	// freshFor is how long a stream's configuration is believed before it is asked for again.
	freshFor = 30 * time.Second
	// askAgain is how long a question about a stream may stay unanswered.
	askAgain = 5 * time.Second
	// rememberStreams bounds the memory for streams, and for subjects that have none.
	rememberStreams = 1000
	// batchLimit is how many messages a server takes in one atomic batch unless it is configured otherwise.
	batchLimit = 1000
)

// A stream is what was learned of one by its name.
type stream struct {
	name     string   // empty when no stream was found for the subject
	subjects []string // patterns
	limit    int      // messages in one atomic batch; 0 when it takes none
	worth    int      // messages of one key that make an atomic batch worth while
	learned  time.Time
}

// streams is what a link knows of the account's streams. It only ever makes publishing faster: when it is wrong,
// the server refuses an atomic batch, and the messages go one by one.
type streams struct {
	mu    sync.Mutex
	known []*stream
	asked time.Time // when a lane has asked and has no answer yet; else zero
	blind bool      // the user may not ask
}

// of returns the stream that takes the subject, or nil. ask says that the caller should ask for it now.
func (s *streams) of(subject string, now time.Time) (found *stream, ask bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, known := range s.known {
		if known.takes(subject) {
			found = known
			break
		}
	}
	if found != nil && now.Sub(found.learned) < freshFor || s.blind || now.Sub(s.asked) < askAgain {
		return found, false
	}
	s.asked = now
	return found, true
}

// learn replaces what was known of a stream.
func (s *streams) learn(of *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = time.Time{}
	kept := s.known[:0]
	for _, known := range s.known {
		if known.name != of.name || known.name == "" && known.subjects[0] != of.subjects[0] {
			kept = append(kept, known)
		}
	}
	if len(kept) >= rememberStreams {
		kept = kept[:0]
	}
	clear(s.known[len(kept):])
	s.known = append(kept, of)
}

// shrink lowers what is put into one atomic batch, after the server refused n as too many.
func (s *streams) shrink(of *stream, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of.limit = min(of.limit, n)
}

// room returns how many messages go into one atomic batch of the stream, 0 when it is not worth while.
func (s *streams) room(of *stream) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of.limit < of.worth {
		return 0
	}
	return of.limit
}

// close ends all questions: the user may not ask.
func (s *streams) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blind = true
}

func (s *stream) takes(subject string) bool {
	for _, pattern := range s.subjects {
		if matches(pattern, subject) {
			return true
		}
	}
	return false
}

// matches reports whether a subject is one of those that a pattern stands for: * is a token, > all that follow.
func matches(pattern, subject string) bool {
	for {
		want, patterns, more := strings.Cut(pattern, ".")
		if want == ">" {
			return true
		}
		token, tokens, left := strings.Cut(subject, ".")
		if want != "*" && want != token {
			return false
		}
		if !more || !left {
			return more == left
		}
		pattern, subject = patterns, tokens
	}
}
