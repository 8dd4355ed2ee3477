package nats

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/outbox-relay/outbox-relay/publisher"
)

const (
	// freshFor is how long a stream's configuration is used before it is asked for again. What is older may name the
	// wrong stream in an answer, but never makes a message count as accepted.
	freshFor = 30 * time.Second
	// soon is the same limit while nothing answers on a subject, or its stream acknowledges nothing.
	soon = time.Second
	// askAgain is how long a question may stay unanswered before another is asked. There is one at a time, so that
	// thousands of subjects without a stream do not become thousands of questions to a JetStream in trouble.
	askAgain = 5 * time.Second
	// rememberStreams bounds the memory for streams, and for subjects that have none. Beyond it, everything is
	// forgotten and learned again, which costs one question for each stream in use.
	rememberStreams = 1000
)

// A stream holds what is known of a JetStream stream. It is replaced as a whole, and never changed once it is in the
// table.
type stream struct {
	name     string   // empty if no stream was found for the subject
	away     bool     // JetStream did not say which stream it is, because too few of its servers are there
	subjects []string // patterns
	leader   string   // empty if it is not known, or if the server is not part of a cluster
	whole    bool     // it is known that its limits apply to all subjects together
	learned  time.Time
}

// streams is what a link knows of the account's streams: what to name in answers. A new link begins without any of it,
// since it may lead to another account or server.
type streams struct {
	mu    sync.Mutex
	known []*stream
	asked time.Time // time of the last question, while it has no answer; otherwise zero
}

// find returns what is known of the stream that takes the subject, or nil. In one account, no two streams have
// overlapping subjects, so the first match is taken, which was learned last: the subject may have been moved.
func (s *streams) find(subject string) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.known, func(known *stream) bool { return takes(known.subjects, subject) }); i >= 0 {
		return s.known[i]
	}
	return nil
}

// mayAsk reports whether a question may be asked now, and counts it as asked. While a question has no answer, no other
// is asked for askAgain.
func (s *streams) mayAsk(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.asked) < askAgain {
		return false
	}
	s.asked = now
	return true
}

// learn replaces what was known of a stream, or of a subject that has none. It returns the stream's previous leader. A
// stream may have other subjects than before, and then the entries of those that had none are outdated as well.
func (s *streams) learn(of *stream) (leader string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = time.Time{}
	s.known = slices.DeleteFunc(s.known, func(known *stream) bool {
		switch {
		case known.name != "" && known.name == of.name:
			leader = known.leader
			return true
		case of.name == "":
			return takes(known.subjects, of.subjects[0])
		}
		return known.name == "" && takes(of.subjects, known.subjects[0])
	})
	if len(s.known) >= rememberStreams {
		s.known = nil
	}
	s.known = slices.Insert(s.known, 0, of)
	return leader
}

// ask returns what is known of the stream that takes the subject. If that is nothing, or older than fresh, it asks, and
// the answer serves later messages. It never waits: a call must not depend on JetStream's answers to anything but its
// messages.
func (l *link) ask(subject string, fresh time.Duration) *stream {
	found, now := l.streams.find(subject), time.Now()
	if (found == nil || now.Sub(found.learned) >= fresh) && l.streams.mayAsk(now) {
		go l.lookUp(l.p.config.Stream, subject)
	}
	return found
}

// meet asks for the stream that gave an answer if it is not known, or if another one took the subject before. It must
// be known in case it stops answering. A stream that is silent cannot be asked about reliably, because JetStream itself
// may be in trouble then.
func (c *call) meet(a ack, subject string) {
	name := a.by
	if a.refusal != nil {
		name = []byte(a.stream)
	}
	if c.met[string(name)] || len(name) == 0 {
		return
	}
	if known := c.link.streams.find(subject); known == nil || known.name != string(name) {
		if !c.link.streams.mayAsk(time.Now()) {
			return
		}
		go c.link.lookUp(c.link.p.config.Stream, subject)
	}
	if len(c.met) >= rememberStreams {
		clear(c.met)
	}
	c.met[string(name)] = true
}

// lookUp asks for the stream with the name, or for the one that takes the subject if the name is empty. It runs in a
// goroutine of its own, which ends within askAgain; the answers are those of the client's own JetStream API. Only
// answers that are certain are learned: an answer that does not come leaves what was known.
func (l *link) lookUp(name, subject string) {
	ctx, cancel := context.WithTimeout(context.Background(), askAgain)
	defer cancel()
	name, info, err := streamOf(ctx, l.js, name, subject)
	var answer *jetstream.APIError
	before := l.streams.find(subject)
	named := before != nil && before.name != "" // it has that name still if JetStream does not say so
	found := &stream{name: name, subjects: []string{subject}, learned: time.Now()}
	switch {
	case err == nil:
		c := info.Config
		found.subjects, found.whole = subjectsOf(c), !c.DiscardNewPerSubject
		if info.Cluster != nil {
			found.leader = info.Cluster.Leader
		}
	// JetStream itself says so: no stream takes the subject.
	case errors.Is(err, jetstream.ErrStreamNotFound):
		found.name = ""
	// No answer, or an error of JetStream: what was known of the stream stays.
	case named && (name == "" || name == before.name):
		return
	// JetStream cannot say now, because its meta group has no leader or the stream has none.
	case errors.As(err, &answer) && answer.Code == 503:
		found.away = name == ""
	case name == "":
		return // nothing answers questions about this account's streams
	}
	if leader := l.streams.learn(found); leader != "" && found.leader != "" && leader != found.leader {
		l.moved(found.name)
	}
}

// streamOf returns the configured stream, or the one that lists the subject, and its state. The name may be known even
// if err is not nil. The server finds nothing for subjects that an account maps or imports under another name.
func streamOf(ctx context.Context, js jetstream.JetStream, name, subject string) (
	_ string, info *jetstream.StreamInfo, err error,
) {
	if name == "" {
		if name, err = js.StreamNameBySubject(ctx, subject); err != nil {
			return "", nil, err
		}
	}
	found, err := js.Stream(ctx, name)
	if err != nil {
		return name, nil, err
	}
	return name, found.CachedInfo(), nil
}

// subjectsOf returns the subjects of a stream. If it lists none, its name is its subject.
func subjectsOf(c jetstream.StreamConfig) []string {
	if len(c.Subjects) == 0 {
		return []string{c.Name}
	}
	return c.Subjects
}

// fate names the stream. It is the zero Fate if the stream's name is not known.
func (s *stream) fate() publisher.Fate {
	if s == nil || s.name == "" {
		return publisher.Fate{}
	}
	return publisher.Fate{Kind: publisher.FateStream, Name: s.name}
}

// takes reports whether one of the patterns covers a subject.
func takes(patterns []string, subject string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return matches(pattern, subject) })
}

// matches reports whether a pattern covers a subject: * stands for one token, > for all that follow. The rules are
// those of NATS: tokens are separated by dots, and > needs at least one token.
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
