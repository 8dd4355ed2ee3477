package nats

import (
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/kept"
)

// An owed answer is that of a message that was given up before its stream answered. It may come on a link that was
// replaced meanwhile, which therefore stays open. The table of kept messages owns it; the link finds it by its place.
type owed struct {
	link   *link
	at     place
	stream string    // or the subject, if its stream is not known
	until  time.Time // how long the answer is waited for
	answer error     // answer for the message until the stream's
	copied bool      // an earlier try may have been stored: the stream may answer that this one is a duplicate

	got   *ack // nil until the answer has come; guarded by link.mu
	moved bool // the stream has another leader; guarded by link.mu
}

// A place is where an answer arrives: a message of a call.
type place struct {
	call    uint64
	message int32
}

// State implements [kept.Answer]. An answer that has come counts even after the end of its time. A connection that has
// ended brings no answer any more, and a new leader knows only what its predecessor has replicated.
func (o *owed) State(now time.Time) kept.State {
	o.link.mu.Lock()
	defer o.link.mu.Unlock()
	switch {
	case o.got != nil:
		return kept.Answered
	case o.moved, o.link.nc.IsClosed(), now.After(o.until):
		return kept.Lost
	}
	return kept.Waits
}

// Release implements [kept.Answer]. If the answer has come, late has already ended the wait.
func (o *owed) Release() {
	o.link.mu.Lock()
	defer o.link.mu.Unlock()
	if o.link.owed[o.at] == o {
		delete(o.link.owed, o.at)
		o.link.Users.Add(-1)
	}
}

// keepSent keeps the messages to one stream, or to all if stream is empty, that were sent and not answered. It calls do
// with the answer for each until that of the stream comes. The trouble is that of the stream only if it has
// acknowledged nothing of this call. Unavailable and not ambiguous: nothing is sent again as long as the answer may
// come.
func (c *call) keepSent(stream string, why error, do func(i int32, answer error)) {
	took := map[string]bool{}
	for i := range c.state {
		if c.state[i] == done && accepted(c.errs[i]) {
			took[c.link.streamOf(c.messages[i].Topic)] = true
		}
	}
	why = c.unanswered(why)
	for i := range c.state {
		m, at := &c.messages[i], int32(i)
		if c.state[i] != sent {
			continue
		}
		name := c.link.streamOf(m.Topic)
		if stream != "" && stream != name {
			continue
		}
		answer := publisher.UnavailableError(publisher.ScopeTopic, "no acknowledgement", "%w", why)
		if took[name] {
			answer = publisher.UnavailableError(publisher.ScopeMessage, "no acknowledgement", "%w", why)
		} else {
			answer = publisher.WithFate(answer, c.link.streams.find(m.Topic).fate())
		}
		o := &owed{
			link: c.link, at: place{c.number, at}, stream: name, until: c.until, answer: answer, copied: c.copied[at],
		}
		c.link.owe(o)
		c.link.p.kept.Keep(keptID(m), m, o)
		do(at, answer)
	}
}

// owe notes that an answer is waited for that no call waits for. The link stays open for it, even if another one has
// taken its place.
func (l *link) owe(o *owed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owed[o.at] = o
	l.Users.Add(+1)
}

// keptID identifies a message by its Nats-Msg-Id, by which the stream would recognise it, too.
func keptID(m *publisher.Message) kept.ID { return kept.ID{Topic: m.Topic, ID: m.DedupID} }

// remembered answers a message that an earlier call has sent, if its answer is known or still waited for. It reports
// false for a message that has to be sent. One that is sent although an earlier try may have been stored is noted in
// copied, so that finish takes a duplicate for that earlier try.
func (c *call) remembered(i int32) bool {
	m := &c.messages[i]
	o, state := c.link.p.kept.Find(keptID(m), m)
	switch state {
	// The message is answered as it was when it was given up, so that the relay's hold for its stream goes on.
	case kept.Waits:
		c.link.ask(m.Topic, soon) // whether the stream has another leader
		c.settles(i, o.answer)
	// Told forgets it: the row is settled with this answer, or is sent again on purpose.
	case kept.Answered:
		answer := *o.got
		answer.duplicate = answer.duplicate && !o.copied
		c.settles(i, c.answer(m, answer))
		c.link.p.kept.Told(keptID(m))
	case kept.Lost:
		c.copied[i] = true
		return false
	case kept.None:
		return false
	}
	return true
}

// late takes the answer to a message whose call has given it up. A call that has the message again finds the answer in
// the table of kept messages.
func (l *link) late(arrived arrival) {
	if arrived.answer == nil {
		return
	}
	a, ok := readAck(arrived.answer)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := place{arrived.number, arrived.message}
	if o := l.owed[at]; o != nil {
		o.got = &a
		delete(l.owed, at)
		l.Users.Add(-1)
	}
}

// moved notes that a stream has another leader. It will not answer what the previous one was sent and has not stored.
// The messages that are kept for it are sent again, with the same ids: what the new leader has after all, it
// recognises.
func (l *link) moved(stream string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.owed {
		o.moved = o.moved || o.stream == stream
	}
}
