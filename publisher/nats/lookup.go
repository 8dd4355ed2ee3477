package nats

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// lookupToken ends the reply subjects of questions; those of publishes end with a number.
	lookupToken = "streams"
	// echoToken ends the reply subjects of echoes.
	echoToken = "echo"
)

// namesSubject is the subject on which JetStream answers which stream takes a given subject.
func (l *link) namesSubject() string { return l.api + "STREAM.NAMES" }

// streamSubject is the subject on which JetStream answers questions about the stream with the given name.
func (l *link) streamSubject(name string) string { return l.api + "STREAM.INFO." + name }

// streamOf returns the stream that takes the subject, if it is known. Otherwise it asks, and the answer comes among the
// acknowledgements of this call or a later one.
func (l *lane) streamOf(subject string) *stream { return l.ask(subject, freshFor) }

// ask works as streamOf does, but asks again if the known stream is older than fresh.
func (l *lane) ask(subject string, fresh time.Duration) *stream {
	found, ask := l.link.streams.of(subject, time.Now(), fresh)
	if !ask {
		return found
	}
	l.subject = strings.Clone(subject)
	if l.link.expect != "" {
		l.askFor(l.link.expect)
		return found
	}
	question, _ := json.Marshal(map[string]string{"subject": subject})               // strings can always be encoded
	_ = l.link.nc.PublishRequest(l.link.namesSubject(), l.lookupAddress(), question) // fails only if the connection has ended
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
		if !l.link.streams.mayAsk(time.Now()) {
			return
		}
		l.subject = strings.Clone(subject)
		l.askFor(string(name))
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

func (l *lane) askFor(name string) {
	_ = l.link.nc.PublishRequest(l.link.streamSubject(name), l.lookupAddress(), nil)
}

func (l *lane) lookupAddress() string { return l.prefix + lookupToken }

// learn handles a message if it is the answer to a question.
func (l *lane) learn(m *nats.Msg) {
	if m.Subject != l.lookupAddress() {
		return
	}
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
		l.link.streams.absent()
		return
	}
	switch {
	case len(answer.Streams) > 0:
		if !l.link.streams.knows(answer.Streams[0]) {
			l.link.streams.learn(&stream{name: answer.Streams[0], subjects: []string{l.subject}, learned: time.Now()})
		}
		l.askFor(answer.Streams[0])
	case answer.Config.Name == "":
		away := answer.Error != nil && answer.Error.Code == 503
		if !away || !l.link.streams.lose(l.subject, time.Now()) {
			l.link.streams.learn(&stream{away: away, subjects: []string{l.subject}, learned: time.Now()})
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
			found.limit, found.worth = batchLimit, l.link.hot
			if answer.Config.Storage == "file" && answer.Config.Replicas == 1 {
				found.worth = l.link.hotSynced
			}
		}
		l.link.streams.learn(found)
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
