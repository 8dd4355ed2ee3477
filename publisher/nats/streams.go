package nats

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// freshFor is how long a stream's configuration is used before it is asked for again.
	freshFor = 30 * time.Second
	// soon is the same limit for whether a stream exists at all, while nothing answers on its subject.
	soon = time.Second
	// askAgain is how long a question about a stream may stay unanswered before another is asked.
	askAgain = 5 * time.Second
	// rememberStreams bounds the memory for streams, and for subjects that have none.
	rememberStreams = 1000
	// batchLimit is the maximum number of messages in one atomic batch, unless a server is configured otherwise.
	batchLimit = 1000
)

// A stream holds what is known of a JetStream stream.
type stream struct {
	name     string   // empty if no stream was found for the subject
	away     bool     // JetStream did not say which stream it is, because too few of its servers are there
	subjects []string // patterns
	atomic   bool     // it takes atomic batches
	worth    int      // number of messages of one key from which an atomic batch is worthwhile
	noAck    bool     // it sends no acknowledgements
	leader   string   // empty if it is not known, or if the server is not part of a cluster
	learned  time.Time

	configured bool // the configuration is known
	whole      bool // its limits apply to all subjects together
}

// streams is what a link knows of the account's streams. It serves only to make publishing faster. If it is wrong, the
// server refuses an atomic batch, and the messages go one by one.
type streams struct {
	haste haste

	mu    sync.Mutex
	known []*stream
	asked time.Time // time at which a lane asked, while there is no answer yet; otherwise zero
	since time.Time // time of the first of these questions
	blind bool      // the user may not ask

	deaf atomic.Bool // one of the known streams sends no acknowledgements
}

// haste says when JetStream is taken to be in trouble.
type haste struct {
	answer      time.Duration // see answerTime
	acknowledge time.Duration // see firstPatience
}

// of returns the stream that takes the subject, or nil. ask means that the caller must ask for it now, because nothing
// is known, or because the knowledge is older than fresh.
func (s *streams) of(subject string, now time.Time, fresh time.Duration) (found *stream, ask bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found = s.taker(subject)
	if found != nil && now.Sub(found.learned) < fresh {
		return found, false
	}
	return found, s.ask(now)
}

// taker returns the known stream that takes the subject, or nil. s.mu is held.
func (s *streams) taker(subject string) *stream {
	for _, known := range s.known {
		if known.takes(subject) {
			return known
		}
	}
	return nil
}

// ask reports whether a question may be asked now, and counts it as asked. s.mu is held.
func (s *streams) ask(now time.Time) bool {
	if s.blind || now.Sub(s.asked) < askAgain {
		return false
	}
	s.asked = now
	if s.since.IsZero() {
		s.since = now
	}
	return true
}

// knows reports whether the stream with the given name is known.
func (s *streams) knows(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.known, func(known *stream) bool { return known.name == name })
}

// find returns what is known of the stream that takes the subject, or nil.
func (s *streams) find(subject string) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taker(subject)
}

// fillsAsWhole reports whether a full stream is full for all its subjects, if that is known.
func (s *streams) fillsAsWhole(name string) (whole, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, known := range s.known {
		if known.name == name && known.configured {
			return known.whole, true
		}
	}
	return false, false
}

// lose notes that too few servers of the stream that takes the subject are there. It reports false if the stream is not
// known.
func (s *streams) lose(subject string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.known, s.taker(subject))
	if i < 0 || s.known[i].name == "" {
		return false
	}
	lost := *s.known[i]
	lost.away, lost.learned = true, now
	s.known[i] = &lost
	s.asked, s.since = time.Time{}, time.Time{}
	return true
}

// mayAsk reports whether a question may be asked now, and counts it as asked.
func (s *streams) mayAsk(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ask(now)
}

// learn replaces what was known of a stream, or of a subject that has none. It returns the stream's previous leader.
func (s *streams) learn(of *stream) (leader string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked, s.since = time.Time{}, time.Time{}
	deaf := of.noAck
	kept := s.known[:0]
	for _, known := range s.known {
		switch {
		case of.name == "" && known.takes(of.subjects[0]):
		case known.name == "" && of.takes(known.subjects[0]):
		case known.name != "" && known.name == of.name:
			leader = known.leader
		default:
			deaf = deaf || known.noAck
			kept = append(kept, known)
		}
	}
	if len(kept) >= rememberStreams {
		kept = kept[:0]
	}
	clear(s.known[len(kept):])
	s.known = append(kept, of)
	s.deaf.Store(deaf)
	return leader
}

// noBatches notes that a stream refuses atomic batches after all.
func (s *streams) noBatches(of *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of.atomic = false
}

// batches reports whether a stream takes atomic batches.
func (s *streams) batches(of *stream) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return of.atomic
}

// silent reports whether a question has been unanswered for longer than a healthy JetStream takes.
func (s *streams) silent(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.since.IsZero() && now.Sub(s.since) > s.haste.answer
}

// absent notes that nothing answers questions about this account's streams.
func (s *streams) absent() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = time.Time{}
}

// close ends all questions, because the user may not ask.
func (s *streams) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blind, s.since = true, time.Time{}
}

func (s *stream) takes(subject string) bool {
	for _, pattern := range s.subjects {
		if matches(pattern, subject) {
			return true
		}
	}
	return false
}

// matches reports whether a pattern covers a subject: * stands for one token, > for all that follow.
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
