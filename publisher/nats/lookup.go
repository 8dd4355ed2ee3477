package nats

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// lookupToken ends the reply subject of questions; those of publishes end with two numbers.
	lookupToken = "streams"
	// echoToken ends the reply subjects of echoes.
	echoToken = "echo"
)

// namesSubject is the subject on which JetStream answers which stream takes a given subject.
func (l *link) namesSubject() string { return l.api + "STREAM.NAMES" }

// streamSubject is the subject on which JetStream answers questions about the stream with the given name.
func (l *link) streamSubject(name string) string { return l.api + "STREAM.INFO." + name }

// lookupAddress is where the answers to questions come, whether a call is under way or not. If they came to the lane that
// asked, they would be read in its next call, and JetStream would seem to be silent until then.
func (l *link) lookupAddress() string { return l.inbox + lookupToken }

// streamOf returns the stream that takes the subject, if it is known. Otherwise it asks, and the answer serves later
// messages.
func (l *lane) streamOf(subject string) *stream { return l.ask(subject, freshFor) }

// ask works as streamOf does, but asks again if the known stream is older than fresh.
func (l *lane) ask(subject string, fresh time.Duration) *stream {
	found, ask := l.link.streams.of(subject, time.Now(), fresh)
	if !ask {
		return found
	}
	if l.link.expect != "" {
		l.link.askFor(l.link.expect)
		return found
	}
	question, _ := json.Marshal(map[string]string{"subject": subject})                    // strings can always be encoded
	_ = l.link.nc.PublishRequest(l.link.namesSubject(), l.link.lookupAddress(), question) // fails only if the connection has ended
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
		if !l.link.streams.mayAsk(subject, time.Now()) {
			return
		}
		l.link.askFor(string(name))
	}
	if len(l.met) >= rememberStreams {
		clear(l.met)
	}
	l.met[string(name)] = struct{}{}
}

// echo asks the server to send something. The server answers that nothing listens, or that the user may not publish
// there.
func (l *lane) echo() {
	if address := l.prefix + echoToken; !l.link.mute.Load() {
		_ = l.link.nc.PublishRequest(address, address, nil) // fails only if the connection has ended
	}
}

func (l *link) askFor(name string) {
	_ = l.nc.PublishRequest(l.streamSubject(name), l.lookupAddress(), nil)
}

// learn handles the answer to a question.
func (l *link) learn(m *nats.Msg) {
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
		} `json:"config"`
	}
	if json.Unmarshal(m.Data, &answer) != nil {
		l.streams.absent()
		return
	}
	subject := l.streams.question()
	switch {
	case len(answer.Streams) > 0:
		if !l.streams.knows(answer.Streams[0]) {
			l.streams.learn(&stream{name: answer.Streams[0], subjects: []string{subject}, learned: time.Now()})
		}
		l.askFor(answer.Streams[0])
	case answer.Config.Name == "":
		away := answer.Error != nil && answer.Error.Code == 503
		if !away || !l.streams.lose(subject, time.Now()) {
			l.streams.learn(&stream{away: away, subjects: []string{subject}, learned: time.Now()})
		}
	default:
		found := &stream{
			name: answer.Config.Name, subjects: answer.Config.Subjects, whole: !answer.Config.Discard, configured: true,
			learned: time.Now(),
		}
		if len(found.subjects) == 0 { // the stream's name is its subject in this case
			found.subjects = []string{found.name}
		}
		if answer.Config.Atomic {
			found.limit, found.worth = batchLimit, l.hot
			if answer.Config.Storage == "file" && answer.Config.Replicas == 1 {
				found.worth = l.hotSynced
			}
		}
		l.streams.learn(found)
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
