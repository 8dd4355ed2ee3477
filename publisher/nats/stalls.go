package nats

import (
	"fmt"
	"maps"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

const (
	// answerTime is the time within which a healthy JetStream answers. Until then nothing is looked at, so that a call
	// to a healthy server pays nothing for any of this.
	answerTime = 250 * time.Millisecond
	// glance is how often a call looks for streams that do not answer once it has waited for answerTime.
	glance = 150 * time.Millisecond
	// firstPatience is how long a stream may then acknowledge nothing of a call, while the server answers, before the
	// call gives it up. The acknowledgements are kept, so that a short time costs nothing: an earlier version that gave
	// streams up after 0.75 seconds without keeping them sent each message up to eight times to a stream that took two
	// seconds. A stream between leaders may take as long.
	firstPatience = 500 * time.Millisecond
)

// stalls is what a call knows of streams whose acknowledgements are late. A call that is answered soon never looks. It
// belongs to the goroutine of the call.
type stalls struct {
	timer *time.Timer
	begun time.Time            // time at which the server was first asked to send something; zero before
	asked time.Time            // time at which the server was last asked
	since map[string]time.Time // time since which a stream has acknowledged nothing, by name
	gone  map[string]error     // streams that the call has given up, with the answer for their messages
}

// clear forgets everything, for the next call or because the connection has ended.
func (s *stalls) clear() {
	s.begun, s.asked = time.Time{}, time.Time{}
	clear(s.since)
	clear(s.gone)
}

// heard notes that the stream of a subject has answered. One acknowledgement is enough: the stream is then slow and not
// silent, and its time begins again.
func (s *stalls) heard(l *link, subject string) {
	if len(s.since) > 0 {
		delete(s.since, l.streamOf(subject))
	}
}

// look is called repeatedly while a call waits for answers, for the first time after answerTime. If the server sends
// nothing at all, the link is doubted. If a stream acknowledges nothing while the server answers, it is given up.
// Messages of other streams do not wait for it. Whether the server answers is judged by anything that has come since
// the last look, such as the answer to the keeper's ping, and not by this call's own messages.
func (c *call) look(now time.Time) {
	s := &c.stalls
	if s.begun.IsZero() {
		s.begun, s.asked, s.since, s.gone = now, now, map[string]time.Time{}, map[string]error{}
	}
	// doubt, below, has the keeper ask the server to send something whenever nothing else comes.
	answers := !c.link.QuietSince(s.asked)
	if answers {
		s.asked = now
	}
	for name, since := range c.silent(now) {
		if answers && now.Sub(since) >= c.link.p.patience {
			c.giveUp(name, answerTime+now.Sub(since).Round(10*time.Millisecond))
		}
	}
	c.link.doubt()
	s.timer.Reset(glance)
}

// silent returns the streams of which messages are waited for, each with the time since which it has acknowledged
// nothing. A stream whose messages have all been answered is left out.
func (c *call) silent(now time.Time) map[string]time.Time {
	waiting := map[string]bool{}
	for i := range c.state {
		if c.state[i] == sent {
			waiting[c.link.streamOf(c.messages[i].Topic)] = true
		}
	}
	maps.DeleteFunc(c.stalls.since, func(name string, _ time.Time) bool { return !waiting[name] })
	for name := range waiting {
		if _, known := c.stalls.since[name]; !known {
			c.stalls.since[name] = now
		}
	}
	return c.stalls.since
}

// streamOf returns the name of the stream that takes a subject, or the subject itself if the stream is not known. It
// asks for what is not known. A subject then stands for a stream of its own, and trouble of one stream is found for
// each subject separately.
func (l *link) streamOf(subject string) string {
	if s := l.ask(subject, soon); s != nil && s.name != "" {
		return s.name
	}
	return subject
}

// giveUp answers the messages of a stream that acknowledges nothing, and keeps those that were sent. Messages of other
// streams go on. Those of this stream that have not been sent come back too, when they have their turn (see passOver).
func (c *call) giveUp(name string, silent time.Duration) {
	why := fmt.Errorf("its stream has acknowledged nothing for %v: "+
		"look at the server's log, whether its disk is full, and whether the stream has no_ack", silent)
	c.stalls.gone[name] = publisher.UnavailableError(publisher.ScopeTopic, "no acknowledgement", "%w",
		c.unanswered(why))
	c.keepSent(name, why, c.settles)
}

// passOver answers a message that may be sent if its stream was given up, and reports whether it did.
func (c *call) passOver(i int32) bool {
	subject := c.messages[i].Topic
	if len(c.stalls.gone) == 0 {
		return false
	}
	err := c.stalls.gone[c.link.streamOf(subject)]
	if err != nil {
		c.settles(i, publisher.WithFate(err, c.link.streams.find(subject).fate()))
	}
	return err != nil
}
