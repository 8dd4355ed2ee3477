package nats

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/keyorder"
)

const (
	// hotKey is the number of messages of one key from which an atomic batch is worthwhile. It saves as many round
	// trips.
	hotKey = 8
	// hotKeySynced is the same for a stream on the disk of a single server. There the server first writes and syncs
	// each batch to separate files, which took as long as 30 to 300 round trips on one machine.
	hotKeySynced = 64
	// runBytes bounds an atomic batch, because the server holds its messages until the last one has arrived.
	runBytes = 4 << 20
	// patientRuns is the number of runs refused for a duplicate after which a call makes no more. By then the stream
	// has every other message, and nothing was gained.
	patientRuns = 8
	// headroom is the size of a header line without the row's own name or value.
	headroom = 64
)

// A run is an atomic batch (ADR-50): messages of one stream that are stored all or not at all, and therefore in order
// without waiting for each other. The server answers the last message, which commits the others. If it refuses, nothing
// was stored, and the messages go one by one so that each gets an answer.
type run struct {
	hot        []int32 // heads of keys that wait for the next run
	heads      []int32 // first message of each key in this run
	messages   []int32 // messages of this run, in the order in which they are sent
	stream     *stream
	id         string
	reply      string // subject on which the answer arrives; empty while no run is in flight
	number     uint64 // number of runs in this lane so far
	duplicates int    // number of runs of this call that were refused because the stream had some of their messages
}

func (r *run) clear() {
	r.hot, r.reply, r.duplicates = r.hot[:0], "", 0
}

// due reports whether the next run may go.
func (r *run) due() bool { return len(r.hot) > 0 && r.reply == "" }

// awaits reports whether the subject is that of the run's answer.
func (r *run) awaits(subject string) bool { return r.reply != "" && r.reply == subject }

// has reports whether a message in flight has one of the subjects.
func (r *run) has(b *batch, subjects map[string]struct{}) bool {
	if r.reply == "" {
		return false
	}
	for _, i := range r.messages {
		if _, ok := subjects[b.messages[i].Topic]; ok {
			return true
		}
	}
	return false
}

// heat makes a head wait for the next run, if its stream takes atomic batches.
func (l *lane) heat(b *batch, head int32) bool {
	s := l.streamOf(b.messages[head].Topic)
	if s == nil || int(b.rest[head]) < s.worth || l.link.streams.room(s) == 0 {
		return false
	}
	l.run.hot = append(l.run.hot, head)
	return true
}

// sendRun sends a run of the waiting keys. Keys that do not fit keep waiting. sendRun reports whether the connection
// was found gone. In that case, and whenever the last message was not sent, nothing is stored.
func (l *lane) sendRun(ctx context.Context, b *batch) (gone bool) {
	r := &l.run
	l.collect(b)
	if r.stream == nil || len(r.messages) < r.stream.worth {
		l.alone(b)
		return false
	}
	r.number++
	token := strconv.FormatUint(l.calls, 36) + "-_" + strconv.FormatUint(r.number, 36)
	r.id = strings.TrimPrefix(l.prefix, l.link.inboxes) + token
	for n, i := range r.messages {
		if ctx.Err() != nil {
			return false
		}
		reply, last := "", n == len(r.messages)-1
		if last {
			reply = l.prefix + token
		}
		message := l.wire.build(&b.messages[i], reply)
		l.wire.add(headerBatch, r.id)
		l.wire.add(headerSequence, strconv.Itoa(n+1))
		if last {
			l.wire.add(headerCommit, "1")
		}
		if err := l.post(message); errors.Is(err, errGone) {
			return true
		} else if err != nil {
			l.alone(b) // the message gets the same answer there
			return false
		}
	}
	r.reply = l.prefix + token
	for _, i := range r.messages {
		b.state[i] = staged
	}
	b.waiting++
	return false
}

// collect fills the run with messages of one stream, key by key. A message that may be refused for a reason of its own
// ends its key's part.
func (l *lane) collect(b *batch) {
	r := &l.run
	r.heads, r.messages = r.heads[:0], r.messages[:0]
	r.stream = l.streamOf(b.messages[r.hot[0]].Topic)
	if r.stream == nil || l.link.streams.room(r.stream) == 0 { // another lane has found that out
		r.heads, r.hot = append(r.heads, r.hot...), r.hot[:0]
		return
	}
	limit, size, topic := l.link.streams.room(r.stream), 0, ""
	left := r.hot[:0]
	for _, first := range r.hot {
		i := first
		for i != keyorder.None && len(r.messages) < limit && size < runBytes {
			m := &b.messages[i]
			if m.Topic != topic {
				if s := l.streamOf(m.Topic); s == nil || s.name != r.stream.name {
					break
				}
				topic = m.Topic
			}
			if !l.fits(m) {
				break
			}
			r.messages = append(r.messages, i)
			size += m.Size()
			i = b.keys.Next[i]
		}
		switch {
		case i != first:
			r.heads = append(r.heads, first)
		case len(r.messages) < limit && size < runBytes && l.aside(b, first): // not in this stream, or not fit for any run
		default:
			left = append(left, first)
		}
	}
	r.hot = left
}

// aside sends a head that is unfit for runs by itself. It reports false for a head of another stream.
func (l *lane) aside(b *batch, head int32) bool {
	m := &b.messages[head]
	if s := l.streamOf(m.Topic); s != nil && s.name != l.run.stream.name && l.link.streams.room(s) > 0 {
		return false
	}
	b.rest[head] = 0
	b.due = append(b.due, head)
	return true
}

// fits reports whether the message may be part of a run, which means that nothing in the message itself will cause a
// refusal.
func (l *lane) fits(m *publisher.Message) bool {
	if m.Topic != l.good {
		if checkSubject(m.Topic, l.link.inboxes) != nil {
			return false
		}
		l.good = m.Topic
	}
	return check(m) == nil && int64(m.Size()+len(m.DedupID)+headroom*(len(m.Headers)+10)) <= l.link.nc.MaxPayload()
}

// committed handles the answer to a run.
func (l *lane) committed(b *batch, a ack) {
	r := &l.run
	switch {
	case a.refusal != nil || a.unheard:
		l.refused(b, a)
	case a.batch != r.id || a.count != len(r.messages):
		// The stream did not recognise the batch. The other messages of it may or may not have been stored.
		l.link.streams.shrink(r.stream, 0)
		l.end(b)
		why := &publisher.Error{
			Class: publisher.Ambiguous, Scope: publisher.ScopeMessage, Short: "no batch",
			Err: fmt.Errorf("the stream %s has not taken the messages as one batch", r.stream.name),
		}
		for _, i := range r.messages {
			b.answer(i, why)
		}
	default:
		l.end(b)
		for _, i := range r.messages {
			b.answer(i, nil)
		}
	}
}

// Error codes that answer a run as a whole.
const (
	errBatchTooLarge  = 10199
	errBatchDuplicate = 10201
	errBatchesOff     = 10174
)

// refused arranges for the run's messages to be sent again. None of them was stored.
func (l *lane) refused(b *batch, a ack) {
	r := &l.run
	code := 0
	if a.refusal != nil {
		code = a.refusal.ErrCode
	}
	switch code {
	case errBatchTooLarge:
		l.link.streams.shrink(r.stream, len(r.messages)/2)
		l.end(b)
		l.restore(b)
		return
	case errBatchesOff:
		l.link.streams.shrink(r.stream, 0)
	case errBatchDuplicate:
		r.duplicates++
	}
	l.undo(b)
}

// single is called when a message that was sent alone has been stored. After a run that was refused for a duplicate,
// the stream has the first messages of some keys, whose answers were lost. Those messages come back as duplicates one
// by one. After the first new message, the key goes on in runs.
func (l *lane) single(b *batch, i int32, a ack) {
	if n := b.keys.Next[i]; n != keyorder.None && b.rest[n] == 0 && !a.duplicate && l.run.duplicates > 0 && l.run.duplicates < patientRuns {
		b.reheat(i)
	}
}

// undo sends the messages of a run one by one, although the run was sent. None of the run will be stored, or else the
// stream recognises the messages as duplicates.
func (l *lane) undo(b *batch) {
	l.end(b)
	l.restore(b)
	for _, i := range l.run.messages {
		b.rest[i] = 0
	}
}

// end forgets a run that was sent.
func (l *lane) end(b *batch) {
	l.run.reply = ""
	b.waiting--
}

// alone sends the messages of a run that was not sent one by one.
func (l *lane) alone(b *batch) {
	l.restore(b)
	for _, i := range l.run.messages {
		b.rest[i] = 0
	}
}

// restore gives a run's messages the states that they had before.
func (l *lane) restore(b *batch) {
	for _, i := range l.run.messages {
		b.state[i] = waits
	}
	for _, i := range l.run.heads {
		b.state[i] = head
	}
	b.due = append(b.due, l.run.heads...)
}
