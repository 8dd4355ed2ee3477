package nats

import "github.com/outbox-relay/outbox-relay/publisher"

const (
	errStoreFailed = 10077 // from a stream at one of its limits, or one whose disk has failed
	errNoStream    = 10059
	errWrongStream = 10060 // the stream that answers is not the one to which the subject should belong
)

// fate adds the stream that gave the answer as its fate, if all subjects of the stream are in trouble.
func (l *lane) fate(subject string, a ack, err error) error {
	if a.refusal == nil || a.stream == "" || publisher.ScopeOf(err) != publisher.ScopeTopic {
		return err
	}
	switch a.refusal.ErrCode {
	case errNoStream, errWrongStream:
		return err
	case errStoreFailed:
		// The code does not say whether the whole stream is full, or only the subject, if the stream limits each
		// subject.
		l.link.ask(subject, freshFor)
		if !l.link.streams.fillsAsWhole(a.stream) {
			return err
		}
	}
	return publisher.WithFate(err, publisher.Fate{Kind: publisher.FateStream, Name: a.stream})
}

// silence returns the answers for messages that were sent and not acknowledged, by subject. If the server has sent
// something since it was asked to, the messages' streams are what does not answer.
func (l *lane) silence(b *batch, why error) func(subject string) error {
	whole := &publisher.Error{Class: publisher.Ambiguous, Short: "no acknowledgement", Err: b.unanswered(l.link.server, why)}
	if b.late.begun.IsZero() || l.link.conn.quietSince(b.late.begun) {
		return func(string) error { return whole }
	}
	answers := map[string]error{}
	return func(subject string) error {
		answer, ok := answers[subject]
		if !ok {
			part := *whole
			part.Scope = publisher.ScopeTopic
			if !b.stranger {
				part.Fate = l.link.streams.find(subject).fate()
			}
			answer = &part
			answers[subject] = answer
		}
		return answer
	}
}

// fate names the stream. It is the zero Fate if the stream's name is not known.
func (s *stream) fate() publisher.Fate {
	if s == nil || s.name == "" {
		return publisher.Fate{}
	}
	return publisher.Fate{Kind: publisher.FateStream, Name: s.name}
}
