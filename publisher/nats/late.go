package nats

import (
	"fmt"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

const (
	// glance is how often a call checks for late answers once it has waited for answerTime.
	glance = 150 * time.Millisecond
	// firstPatience is how long a stream may acknowledge nothing of a call, while the server answers, before the call
	// gives it up.
	firstPatience = 750 * time.Millisecond
	// shortTries is how many consecutive times that limit applies. It is short because a message that was sent to a
	// leader that is gone is never acknowledged, and another leader is elected within seconds. After that, the limit
	// doubles each time, so that a slow but healthy stream can still deliver its acknowledgements.
	shortTries = 6
)

// late is what a call knows of streams whose acknowledgements are late. A call that is answered soon never checks.
type late struct {
	begun   time.Time // time at which the server was first asked to send something; zero before answers were late
	asked   time.Time // time at which the server was last asked
	streams map[string]*progress
	gone    map[string]error // streams that the call has given up, with the answer for messages not sent to them
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
// a stream acknowledges nothing while others do, it is given up. Messages of other streams do not wait for it.
func (l *lane) look(b *batch, now time.Time) {
	t := &b.late
	switch {
	case t.begun.IsZero():
		t.begun, t.asked = now, now
		l.count(b, now.Add(-answerTime))
		l.echo()
	case !l.link.conn.quiet(now.Sub(t.asked)):
		l.giveUp(b, now)
		t.asked = now
		l.echo()
	default:
		l.link.doubt()
	}
	l.patience.Reset(glance)
}

// giveUp answers the messages of streams that have acknowledged nothing for longer than allowed.
func (l *lane) giveUp(b *batch, now time.Time) {
	names := l.count(b, now)
	for name, p := range b.late.streams {
		patience := l.link.streams.patience(name, now)
		if p.waiting == 0 || now.Sub(p.since) < patience {
			continue
		}
		l.link.streams.slow(name, now)
		l.abandon(b, name, names, fmt.Errorf("it has acknowledged nothing for %v", now.Sub(p.since).Round(10*time.Millisecond)))
	}
}

// count updates the progress of all streams. It returns the name under which each subject's messages are counted: the
// stream, or the subject itself if the stream is not known.
func (l *lane) count(b *batch, now time.Time) (names map[string]string) {
	names = map[string]string{}
	found := map[string]*progress{}
	for i := range b.state {
		if b.state[i] != sent && b.state[i] != staged && b.state[i] != done {
			continue
		}
		subject := b.messages[i].Topic
		name, ok := names[subject]
		if !ok {
			if name = subject; l.link.streams.find(subject).fate() != (publisher.Fate{}) {
				name = l.link.streams.find(subject).name
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

// abandon answers the messages of a stream that is given up: those that were sent, and those that would be sent next.
func (l *lane) abandon(b *batch, name string, names map[string]string, why error) {
	b.abandoned = true
	if l.run.reply != "" && names[b.messages[l.run.messages[0]].Topic] == name {
		l.end(b)
	}
	answer := l.silence(b, why)
	for i := range b.state {
		if subject := b.messages[i].Topic; (b.state[i] == sent || b.state[i] == staged) && names[subject] == name {
			b.answer(int32(i), answer(subject))
		}
	}
	if b.late.gone == nil {
		b.late.gone = map[string]error{}
	}
	for subject, known := range names {
		if known == name {
			unsent := publisher.UnavailableError(publisher.ScopeTopic, "no acknowledgement",
				"not sent, since others to the stream are not acknowledged: %w", why)
			b.late.gone[subject] = publisher.WithFate(unsent, l.link.streams.find(subject).fate())
		}
	}
	l.run.hot = slices.DeleteFunc(l.run.hot, func(i int32) bool { return l.passOver(b, i) })
}

// passOver answers a message that may be sent if its stream was given up, and reports whether the stream was.
func (l *lane) passOver(b *batch, i int32) bool {
	if len(b.late.gone) == 0 {
		return false
	}
	err, gone := b.late.gone[b.messages[i].Topic]
	if gone {
		b.answer(i, err)
	}
	return gone
}
