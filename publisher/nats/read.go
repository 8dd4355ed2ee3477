package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outbox-relay/outbox-relay/publisher"
)

const (
	// readSilence is how long a stream may take for its next message.
	readSilence = 30 * time.Second
	// readSubjects is the maximum number of subjects by which a consumer filters. With more subjects, it reads the
	// whole stream.
	readSubjects = 100
)

var _ publisher.Reader = (*Publisher)(nil)

// Read implements [publisher.Reader]. It reads only headers, with an ordered consumer, which leaves nothing on the
// server. The messages of a stream that does not list the subject, or changes subjects, come without a topic. It blocks
// until all of the time is read, or nothing has come for readSilence. do is called in its own goroutine.
func (p *Publisher) Read(ctx context.Context, subjects []string, from, until time.Time, do func(*publisher.Stored)) (
	map[string]publisher.Held, error,
) {
	link, err := p.keeper.Borrow(ctx, true)
	if err != nil {
		return nil, err
	}
	defer link.Users.Add(-1)
	held := map[string]publisher.Held{}
	var streams []*storedStream
	for _, subject := range subjects {
		if i := slices.IndexFunc(streams, func(s *storedStream) bool { return takes(s.takes, subject) }); i >= 0 {
			streams[i].subjects = append(streams[i].subjects, subject)
			continue
		}
		_, info, err := streamOf(ctx, link.js, p.config.Stream, subject)
		switch {
		case err == nil && takes(subjectsOf(info.Config), subject):
			streams = append(streams, &storedStream{
				info, subjectsOf(info.Config), info.Config.SubjectTransform != nil, []string{subject},
			})
		case err == nil: // it is the configured stream, which is read once, for all subjects
			streams = append(streams, &storedStream{info, []string{">"}, true, []string{subject}})
		case !errors.Is(err, jetstream.ErrStreamNotFound):
			return nil, fmt.Errorf("find the stream of subject %s: %w: "+
				"the user needs the right to publish to $JS.API.>", subject, err)
		case p.config.Stream != "":
			held[subject] = publisher.Held{Absent: true}
		default:
			held[subject] = publisher.Held{Unknown: "no stream lists the subject: it was deleted, or the account " +
				"maps or imports the subject under another name; then name the stream in " + p.names.Of("Stream")}
		}
	}
	for _, s := range streams {
		state, err := s.read(ctx, link.js, from, until, do)
		if err != nil {
			return nil, fmt.Errorf("read stream %s: %w", s.info.Config.Name, err)
		}
		for _, subject := range s.subjects {
			held[subject] = state
		}
	}
	return held, nil
}

// A storedStream is a stream with the subjects to be read from it. Subjects of one stream are read together, in one
// pass over it.
type storedStream struct {
	info     *jetstream.StreamInfo
	takes    []string // patterns of the subjects that are in it
	renamed  bool     // the messages have other subjects there
	subjects []string
}

// lossy returns why the stream may lack messages other than its oldest ones. It returns "" if the stream keeps them.
func (s *storedStream) lossy() string {
	if c := s.info.Config; c.Retention != jetstream.LimitsPolicy || c.MaxMsgsPerSubject > 0 || c.AllowMsgTTL {
		return "the stream keeps only what a consumer waits for (retention), a limited number of messages of each " +
			"subject, or messages for as long as they say"
	}
	return ""
}

// read calls a function for the stream's messages. What is stored after the reading began is left out.
func (s *storedStream) read(
	ctx context.Context, js jetstream.JetStream, from, until time.Time, do func(*publisher.Stored),
) (publisher.Held, error) {
	state := s.info.State
	held := publisher.Held{Lossy: s.lossy()}
	if state.FirstSeq > 1 {
		// The first sequence is above 1, so messages were removed; if none is left, all that is asked for may have
		// been.
		if held.Since = state.FirstTime; state.Msgs == 0 {
			held.Since = time.Now().AddDate(1, 0, 0)
		}
	}
	if state.Msgs == 0 || s.info.Config.Retention == jetstream.WorkQueuePolicy { // which allows one consumer only
		return held, nil
	}
	config := jetstream.OrderedConsumerConfig{
		HeadersOnly: true, DeliverPolicy: jetstream.DeliverAllPolicy, MaxResetAttempts: 5,
	}
	if !from.IsZero() {
		config.DeliverPolicy, config.OptStartTime = jetstream.DeliverByStartTimePolicy, &from
	}
	// The subjects in a stream that changes them are not those of the rows.
	if len(s.subjects) <= readSubjects && !s.renamed {
		config.FilterSubjects = s.subjects
	}
	consumer, err := js.OrderedConsumer(ctx, s.info.Config.Name, config)
	if err != nil {
		return held, err
	}
	info, err := consumer.Info(ctx)
	if err != nil || info.NumPending == 0 {
		return held, err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return held, err
	}
	defer messages.Stop()
	defer context.AfterFunc(ctx, messages.Stop)()
	for {
		m, err := messages.Next(jetstream.NextMaxWait(readSilence))
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			} else if errors.Is(err, nats.ErrTimeout) {
				err = fmt.Errorf("no message came for %v: %w", readSilence, err)
			}
			return held, err
		}
		about, err := m.Metadata()
		if err != nil {
			return held, err
		}
		if about.Sequence.Stream > state.LastSeq || !until.IsZero() && about.Timestamp.After(until) {
			return held, nil
		}
		stored := &publisher.Stored{Place: about.Stream, Position: about.Sequence.Stream}
		if !s.renamed {
			stored.Topic = m.Subject()
		}
		for name, values := range m.Headers() {
			for _, value := range values {
				stored.Headers = append(stored.Headers, publisher.Header{Name: name, Value: value})
			}
		}
		do(stored)
		if about.NumPending == 0 || about.Sequence.Stream == state.LastSeq {
			return held, nil
		}
	}
}
