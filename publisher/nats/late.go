package nats

import (
	"fmt"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

const (
	// answerTime is the time within which a healthy JetStream answers.
	answerTime = 250 * time.Millisecond
	// glance is how often a call checks for late answers once it has waited for answerTime.
	glance = 150 * time.Millisecond
	// firstPatience is how long a stream may acknowledge nothing of a call, while the server answers, before the call
	// gives it up. The acknowledgements are kept, so that a short time costs nothing.
	firstPatience = 750 * time.Millisecond
)

// late is what a call knows of streams whose acknowledgements are late. A call that is answered soon never checks.
type late struct {
	begun   time.Time // time at which the server was first asked to send something; zero before answers were late
	asked   time.Time // time at which the server was last asked
	streams map[string]*progress
	gone    map[string]error // subjects of streams that the call has given up, with the answer for their messages
}

// progress is how far a stream has come in a call.
type progress struct {
	answered int
	waiting  int
	since    time.Time // time of its last answer, or at which nothing was waiting
}

func (t *late) begin() {
	t.begun, t.asked = time.Time{}, time.Time{}
	clear(t.streams)
	clear(t.gone)
}

// look is called repeatedly while a call waits for answers. If the server sends nothing at all, the link is doubted. If
// a stream acknowledges nothing while the server answers, it is given up. Messages of other streams do not wait for it.
func (l *lane) look(b *batch, now time.Time) {
	t := &b.late
	l.lookAtKept(b, now)
	switch {
	case t.begun.IsZero():
		t.begun, t.asked = now, now
		l.count(b, now.Add(-answerTime))
	case !l.link.conn.quietSince(t.asked):
		l.giveUp(b, now)
		t.asked = now
	}
	l.link.doubt()
	l.patience.Reset(glance)
}

// giveUp gives up streams that have acknowledged nothing for longer than allowed.
func (l *lane) giveUp(b *batch, now time.Time) {
	names := l.count(b, now)
	for name, p := range b.late.streams {
		if p.waiting > 0 && now.Sub(p.since) >= l.link.patience {
			l.abandon(b, name, names, now.Sub(p.since).Round(10*time.Millisecond))
		}
	}
}

// count updates the progress of all streams. It returns the name under which each subject's messages are counted: the
// stream, or the subject itself if the stream is not known. It asks for what is not known.
func (l *lane) count(b *batch, now time.Time) (names map[string]string) {
	names = map[string]string{}
	found := map[string]*progress{}
	for i := range b.state {
		if b.state[i] != sent && b.state[i] != done {
			continue
		}
		subject := b.messages[i].Topic
		name, ok := names[subject]
		if !ok {
			name = subject
			if s := l.link.ask(subject, soon); s != nil && s.name != "" {
				name = s.name
			}
			names[subject] = name
		}
		if found[name] == nil {
			found[name] = &progress{since: now}
		}
		if b.state[i] == done {
			found[name].answered++
		} else {
			found[name].waiting++
		}
	}
	for name, p := range found {
		if before := b.late.streams[name]; before != nil && before.answered == p.answered && before.waiting > 0 {
			p.since = before.since
		}
	}
	b.late.streams = found
	return names
}

// abandon answers the messages of a stream that is given up, and keeps those that were sent.
func (l *lane) abandon(b *batch, name string, names map[string]string, silent time.Duration) {
	if b.late.gone == nil {
		b.late.gone = map[string]error{}
	}
	why := fmt.Errorf("its stream has acknowledged nothing for %v: look at the server's log, and whether its disk is full",
		silent)
	for subject, known := range names {
		if known == name {
			b.late.gone[subject] = l.stillWaits(subject, b.unanswered(l.link.server, why))
		}
	}
	l.keepSent(b, func(subject string) (string, bool) { return name, names[subject] == name })
	for i := range b.state {
		if b.state[i] == sent && names[b.messages[i].Topic] == name {
			b.answer(int32(i), b.late.gone[b.messages[i].Topic])
		}
	}
	l.run.hot = slices.DeleteFunc(l.run.hot, func(i int32) bool { return l.passOver(b, i) })
}

// keepSent keeps the messages that were sent and not answered, of the subjects for which the function returns the name of
// a stream.
func (l *lane) keepSent(b *batch, of func(subject string) (stream string, ok bool)) {
	run := l.run
	for i := range b.state {
		m, at := &b.messages[i], int32(i)
		stream, ok := of(m.Topic)
		if b.state[i] != sent || !ok {
			continue
		}
		if one := b.adopted[at]; one != nil {
			l.link.keeper.leave(one)
			delete(b.adopted, at)
			continue
		}
		one := l.link.keeper.keep(m, stream, b.until)
		if run.id != "" && slices.Contains(run.messages, at) {
			one.run, at = run.id, run.last()
			l.run.id = ""
		}
		l.park(at, one)
	}
}

// stillWaits is the answer for messages of a stream that was given up. Those that were sent are kept.
func (l *lane) stillWaits(subject string, why error) error {
	s := l.link.streams.find(subject)
	err := publisher.UnavailableError(publisher.ScopeTopic, "no acknowledgement", "%w", why)
	return publisher.WithFate(err, s.fate())
}

// passOver answers a message that may be sent if its stream was given up, or is known to acknowledge nothing, and
// reports whether it did.
func (l *lane) passOver(b *batch, i int32) bool {
	subject := b.messages[i].Topic
	if err, gone := b.late.gone[subject]; gone {
		b.answer(i, err)
		return true
	}
	if !l.link.streams.deaf.Load() {
		return false
	}
	s := l.link.ask(subject, soon)
	if s == nil || !s.noAck {
		return false
	}
	b.answer(i, publisher.WithFate(publisher.TopologyError("no acknowledgements",
		"the stream %s sends no acknowledgements (no_ack), so nothing is sent to it: turn no_ack off", s.name), s.fate()))
	return true
}

// adopt waits for a message that an earlier call has sent instead of sending it, and reports whether there is one.
func (l *lane) adopt(b *batch, i int32) bool {
	one := l.link.keeper.adopt(&b.messages[i], l, func() string { return l.address(i) })
	if one == nil {
		return false
	}
	if b.adopted == nil {
		b.adopted = map[int32]*kept{}
	}
	b.adopted[i] = one
	b.send(i)
	l.lookAt(b, i, one, time.Now())
	return true
}

// lookAtKept looks for the answers to messages that earlier calls have sent.
func (l *lane) lookAtKept(b *batch, now time.Time) {
	for i, one := range b.adopted {
		l.lookAt(b, i, one, now)
	}
}

// lookAt settles a message of an earlier call if its answer has come, or if its time is over.
func (l *lane) lookAt(b *batch, i int32, one *kept, now time.Time) {
	switch answer, over := l.link.keeper.look(one, now); {
	case answer != nil:
		m := *answer
		m.Subject = l.address(i)
		l.settle(b, &m)
	case over != nil:
		l.link.keeper.forget(one)
		delete(b.adopted, i)
		err := &publisher.Error{
			Class: publisher.Ambiguous, Scope: publisher.ScopeTopic, Short: "no acknowledgement",
			Err: b.unanswered(l.link.server, over), Fate: l.link.streams.find(b.messages[i].Topic).fate(),
		}
		b.answer(i, err)
	}
}
