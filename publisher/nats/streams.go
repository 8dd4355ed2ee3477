package nats

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// freshFor is how long a stream's configuration is used before it is asked for again.
	freshFor = 30 * time.Second
	// soon is the same limit while nothing answers on a subject, or its stream acknowledges nothing.
	soon = time.Second
	// askAgain is how long a question may stay unanswered before another is asked.
	askAgain = 5 * time.Second
	// rememberStreams bounds the memory for streams, and for subjects that have none.
	rememberStreams = 1000
	// batchLimit is the maximum number of messages in one atomic batch, unless a server is configured otherwise.
	batchLimit = 1000
	// lookupToken is followed by the subject of the question in reply subjects of questions; those of publishes end with
	// two numbers.
	lookupToken = "streams."
	// mostAsked is the length of the longest subject about which questions are asked, in bytes. The server ends the
	// connection if a protocol line is longer than 4096, and a question's line contains the subject in a longer form too.
	mostAsked = 1024
)

// A stream holds what is known of a JetStream stream.
type stream struct {
	name     string   // empty if no stream was found for the subject
	away     bool     // JetStream did not say which stream it is, because too few of its servers are there
	subjects []string // patterns
	atomic   bool     // it takes atomic batches; guarded by streams.mu
	worth    int      // number of messages of one key from which an atomic batch is worthwhile
	noAck    bool     // it sends no acknowledgements
	leader   string   // empty if it is not known, or if the server is not part of a cluster
	learned  time.Time

	configured bool // the configuration is known
	whole      bool // its limits apply to all subjects together
}

// streams is what a link knows of the account's streams: what to name in answers, and whether atomic batches go faster.
// If it is wrong, the server refuses an atomic batch, and the messages go one by one.
type streams struct {
	deaf atomic.Bool // one of the known streams sends no acknowledgements

	mu    sync.Mutex
	known []*stream
	asked time.Time // time of the last question, while it has no answer; otherwise zero
	blind bool      // the user may not ask
}

// find returns what is known of the stream that takes the subject, or nil.
func (s *streams) find(subject string) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.known, func(known *stream) bool { return known.takes(subject) }); i >= 0 {
		return s.known[i]
	}
	return nil
}

// mayAsk reports whether a question may be asked now, and counts it as asked.
func (s *streams) mayAsk(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blind || now.Sub(s.asked) < askAgain {
		return false
	}
	s.asked = now
	return true
}

// fillsAsWhole reports whether a full stream is full for all its subjects, as far as that is known.
func (s *streams) fillsAsWhole(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.known, func(known *stream) bool {
		return known.name == name && known.configured && known.whole
	})
}

// learn replaces what was known of a stream, or of a subject that has none. It returns the stream's previous leader.
func (s *streams) learn(of *stream) (leader string) {
	s.mu.Lock()
	defer s.mu.Unlock()
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

// set changes what is known under the lock.
func (s *streams) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// batches reports whether a stream takes atomic batches.
func (s *streams) batches(of *stream) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return of.atomic
}

// namesSubject is the subject on which JetStream answers which stream takes a given subject.
func (l *link) namesSubject() string { return l.api + "STREAM.NAMES" }

// streamSubject is the subject on which JetStream answers questions about the stream with the given name.
func (l *link) streamSubject(name string) string { return l.api + "STREAM.INFO." + name }

// lookups is the prefix of the reply subjects of questions. Answers are read whether a call is under way or not.
func (l *link) lookups() string { return l.inbox + lookupToken }

// question asks about a subject, which the reply subject contains, since answers may come late.
func (l *link) question(api, subject string, body []byte) {
	// This fails only if the connection has ended.
	_ = l.nc.PublishRequest(api, l.lookups()+base64.RawURLEncoding.EncodeToString([]byte(subject)), body)
}

// ask returns what is known of the stream that takes the subject. If that is nothing, or older than fresh, it asks, and
// the answer serves later messages.
func (l *link) ask(subject string, fresh time.Duration) *stream {
	found, now := l.streams.find(subject), time.Now()
	switch {
	case len(subject) > mostAsked, found != nil && now.Sub(found.learned) < fresh, !l.streams.mayAsk(now):
	case l.expect != "":
		l.question(l.streamSubject(l.expect), subject, nil)
	default:
		body, _ := json.Marshal(map[string]string{"subject": subject}) // strings can always be encoded
		l.question(l.namesSubject(), subject, body)
	}
	return found
}

// meet asks once for a stream that is not known. It must be known in case it stops answering.
func (l *lane) meet(a ack, subject string) {
	name := a.by
	if a.refusal != nil {
		name = []byte(a.stream)
	}
	if _, met := l.met[string(name)]; met || len(name) == 0 || len(subject) > mostAsked {
		return
	}
	if known := l.link.streams.find(subject); known == nil || known.name != string(name) {
		if !l.link.streams.mayAsk(time.Now()) {
			return
		}
		l.link.question(l.link.streamSubject(string(name)), subject, nil)
	}
	if len(l.met) >= rememberStreams {
		clear(l.met)
	}
	l.met[string(name)] = struct{}{}
}

// learn handles the answer to a question.
func (l *link) learn(m *nats.Msg) {
	about, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(m.Subject, l.lookups()))
	if err != nil {
		return // not an answer
	}
	subject := string(about)
	l.streams.set(func() { l.streams.asked = time.Time{} })
	var answer struct {
		Error   *apiError `json:"error"`
		Streams []string  `json:"streams"` // names of the streams
		Config  struct {
			Name     string   `json:"name"`
			Subjects []string `json:"subjects"`
			Atomic   bool     `json:"allow_atomic"`
			Storage  string   `json:"storage"`
			Replicas int      `json:"num_replicas"`
			Discard  bool     `json:"discard_new_per_subject"`
			NoAck    bool     `json:"no_ack"`
		} `json:"config"`
		Cluster struct {
			Leader string `json:"leader"`
		} `json:"cluster"`
	}
	if json.Unmarshal(m.Data, &answer) != nil {
		return // nothing answers questions about this account's streams
	}
	found := &stream{subjects: []string{subject}, learned: time.Now()}
	switch c := answer.Config; {
	case len(answer.Streams) > 0:
		l.question(l.streamSubject(answer.Streams[0]), subject, nil)
		if known := l.streams.find(subject); known != nil && known.name == answer.Streams[0] {
			return
		}
		found.name = answer.Streams[0]
	case c.Name != "":
		found.name, found.leader = c.Name, answer.Cluster.Leader
		found.configured, found.whole, found.noAck = true, !c.Discard, c.NoAck
		if found.subjects = c.Subjects; len(c.Subjects) == 0 { // the stream's name is its subject in this case
			found.subjects = []string{c.Name}
		}
		if found.atomic, found.worth = c.Atomic, l.hot; c.Storage == "file" && c.Replicas == 1 {
			found.worth = l.hotSynced
		}
	case answer.Error != nil && answer.Error.Code == 503:
		if known := l.streams.find(subject); known != nil && known.name != "" {
			return // it has that name still
		}
		found.away = true
	}
	if before := l.streams.learn(found); before != "" && found.leader != "" && before != found.leader {
		l.keeper.moved(found.name, before, found.leader)
	}
}

// forbidden reports whether one of the subjects is that of a question.
func (l *link) forbidden(subjects map[string]struct{}) bool {
	for subject := range subjects {
		if subject == l.namesSubject() || strings.HasPrefix(subject, l.streamSubject("")) {
			return true
		}
	}
	return false
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
