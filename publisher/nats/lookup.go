package nats

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// lookupToken is followed by the subject of the question in reply subjects of questions; those of publishes end with two
	// numbers.
	lookupToken = "streams."
	// mostAsked is the length of the longest subject about which questions are asked, in bytes. The server ends the connection if a
	// protocol line is longer than 4096, and a question's line contains the subject once more, in a longer form.
	mostAsked = 1024
)

// namesSubject is the subject on which JetStream answers which stream takes a given subject.
func (l *link) namesSubject() string { return l.api + "STREAM.NAMES" }

// streamSubject is the subject on which JetStream answers questions about the stream with the given name.
func (l *link) streamSubject(name string) string { return l.api + "STREAM.INFO." + name }

// lookups is the prefix of the reply subjects of questions. Answers are read whether a call is under way or not. If they came to
// the lane that asked, they would be read in its next call, and JetStream would seem to be silent until then.
func (l *link) lookups() string { return l.inbox + lookupToken }

// lookupAddress returns the reply subject of a question about a subject, which it contains, since answers may come late.
func (l *link) lookupAddress(about string) string {
	return l.lookups() + base64.RawURLEncoding.EncodeToString([]byte(about))
}

// streamOf returns the stream that takes the subject, if it is known. Otherwise it asks, and the answer serves later
// messages.
func (l *lane) streamOf(subject string) *stream { return l.ask(subject, freshFor) }

// ask works as streamOf does, but asks again if the known stream is older than fresh.
func (l *lane) ask(subject string, fresh time.Duration) *stream {
	if len(subject) > mostAsked {
		return l.link.streams.find(subject)
	}
	found, ask := l.link.streams.of(subject, time.Now(), fresh)
	if !ask {
		return found
	}
	if l.link.expect != "" {
		l.link.askFor(l.link.expect, subject)
		return found
	}
	question, _ := json.Marshal(map[string]string{"subject": subject}) // strings can always be encoded
	// This fails only if the connection has ended.
	_ = l.link.nc.PublishRequest(l.link.namesSubject(), l.link.lookupAddress(subject), question)
	return found
}

// meet asks once for a stream that the link does not know. The stream must be known in case it stops answering.
func (l *lane) meet(a ack, subject string) {
	name := a.by
	if a.refusal != nil {
		name = []byte(a.stream)
	}
	if _, met := l.met[string(name)]; met || len(name) == 0 {
		return
	}
	if !l.link.streams.knows(string(name)) {
		if len(subject) > mostAsked || !l.link.streams.mayAsk(time.Now()) {
			return
		}
		l.link.askFor(string(name), subject)
	}
	if len(l.met) >= rememberStreams {
		clear(l.met)
	}
	l.met[string(name)] = struct{}{}
}

// askFor asks for a stream, which takes the subject.
func (l *link) askFor(name, subject string) {
	_ = l.nc.PublishRequest(l.streamSubject(name), l.lookupAddress(subject), nil)
}

// learn handles the answer to a question.
func (l *link) learn(m *nats.Msg) {
	about, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(m.Subject, l.lookups()))
	if err != nil {
		return // not an answer
	}
	subject := string(about)
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
		l.streams.absent()
		return
	}
	switch {
	case len(answer.Streams) > 0:
		if !l.streams.knows(answer.Streams[0]) {
			l.streams.learn(&stream{name: answer.Streams[0], subjects: []string{subject}, learned: time.Now()})
		}
		l.askFor(answer.Streams[0], subject)
	case answer.Config.Name == "":
		away := answer.Error != nil && answer.Error.Code == 503
		if !away || !l.streams.lose(subject, time.Now()) {
			l.streams.learn(&stream{away: away, subjects: []string{subject}, learned: time.Now()})
		}
	default:
		found := &stream{
			name: answer.Config.Name, subjects: answer.Config.Subjects, whole: !answer.Config.Discard, configured: true,
			noAck: answer.Config.NoAck, leader: answer.Cluster.Leader, learned: time.Now(),
		}
		if len(found.subjects) == 0 { // the stream's name is its subject in this case
			found.subjects = []string{found.name}
		}
		if answer.Config.Atomic {
			found.atomic, found.worth = true, l.hot
			if answer.Config.Storage == "file" && answer.Config.Replicas == 1 {
				found.worth = l.hotSynced
			}
		}
		if before := l.streams.learn(found); before != "" && found.leader != "" && before != found.leader {
			l.keeper.moved(found.name, before, found.leader)
		}
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
