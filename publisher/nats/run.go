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
	// headroom is the size of a header line without the row's own name or value.
	headroom = 64
)

// A run is an atomic batch (ADR-50): messages of one stream that are stored all or not at all, and therefore in order
// without waiting for each other. The server answers the last message, which commits the others. If it refuses, nothing
// was stored, and the messages go one by one so that each gets an answer. A call has one run in flight at a time.
type run struct {
	hot      []int32 // heads of keys that wait for the next run
	heads    []int32 // first message of each key in this run
	messages []int32 // messages of this run, in the order in which they are sent
	stream   *stream
	id       string // empty while no run is in flight
	number   uint64 // number of runs in this lane so far
}

func (r *run) clear() { r.hot, r.id = r.hot[:0], "" }

// due reports whether the next run may go.
func (r *run) due() bool { return len(r.hot) > 0 && r.id == "" }

// last is the message whose answer is that of the run.
func (r *run) last() int32 { return r.messages[len(r.messages)-1] }

// awaits reports whether an answer to a message is that of the run.
func (r *run) awaits(i int32) bool { return r.id != "" && i == r.last() }

// has reports whether a message in flight has one of the subjects.
func (r *run) has(b *batch, subjects map[string]struct{}) bool {
	for n := 0; r.id != "" && n < len(r.messages); n++ {
		if _, ok := subjects[b.messages[r.messages[n]].Topic]; ok {
			return true
		}
	}
	return false
}

// heat makes a head wait for the next run, if its stream takes atomic batches.
func (l *lane) heat(b *batch, head int32) bool {
	s := l.link.ask(b.messages[head].Topic, freshFor)
	if s == nil || int(b.rest[head]) < s.worth || !l.link.streams.batches(s) {
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
		for _, i := range r.heads {
			b.rest[i] = 0
			b.due = append(b.due, i)
		}
		return false
	}
	r.number++
	id := strings.TrimPrefix(l.address(r.last()), l.link.inboxes) + "_" + strconv.FormatUint(r.number, 36)
	for n, i := range r.messages {
		if ctx.Err() != nil {
			return false
		}
		reply, last := "", n == len(r.messages)-1
		if last {
			reply = l.address(i)
		}
		message := l.wire.build(&b.messages[i], reply)
		l.wire.add(headerBatch, id)
		l.wire.add(headerSequence, strconv.Itoa(n+1))
		if last {
			l.wire.add(headerCommit, "1")
		}
		if err := l.post(message); errors.Is(err, errGone) {
			return true
		} else if err != nil { // the message gets the same answer when it is sent alone
			for _, i := range r.heads {
				b.rest[i] = 0
				b.due = append(b.due, i)
			}
			return false
		}
	}
	r.id = id
	for _, i := range r.messages {
		b.send(i)
	}
	return false
}

// collect fills the run with messages of one stream, key by key. A message that may be refused for a reason of its own
// ends its key's part.
func (l *lane) collect(b *batch) {
	r := &l.run
	r.heads, r.messages, r.stream = r.heads[:0], r.messages[:0], l.link.ask(b.messages[r.hot[0]].Topic, freshFor)
	waiting := r.hot
	r.hot = r.hot[:0]
	size := 0
	for _, first := range waiting {
		i := first
		for i != keyorder.None && r.stream != nil && len(r.messages) < batchLimit && size < runBytes {
			m := &b.messages[i]
			if s := l.link.streams.find(m.Topic); s == nil || s.name != r.stream.name || !l.fits(m) {
				break
			}
			r.messages = append(r.messages, i)
			size += m.Size()
			i = b.keys.Next[i]
		}
		switch s := l.link.streams.find(b.messages[first].Topic); {
		case i != first:
			r.heads = append(r.heads, first)
		case s != nil && r.stream != nil && l.link.streams.batches(s) && l.fits(&b.messages[first]):
			r.hot = append(r.hot, first) // for a later run
		default:
			b.rest[first] = 0
			b.due = append(b.due, first)
		}
	}
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

// errBatchesOff answers a run if the stream takes none any more, errBatchTooLarge if the server takes fewer messages.
const (
	errBatchesOff    = 10174
	errBatchTooLarge = 10199
)

// committed handles the answer to a run.
func (l *lane) committed(b *batch, a ack) {
	r := &l.run
	switch {
	case a.refusal != nil || a.unheard:
		if a.refusal != nil && (a.refusal.ErrCode == errBatchesOff || a.refusal.ErrCode == errBatchTooLarge) {
			l.link.streams.set(func() { r.stream.atomic = false })
		}
		l.undo(b)
		return
	case a.batch != r.id:
		l.link.streams.set(func() { r.stream.atomic = false })
	}
	err := runAnswer(r.id, a)
	r.id = ""
	for _, i := range r.messages {
		b.answer(i, err)
	}
}

// runAnswer returns the answer to a run that was not refused, for each of its messages.
func runAnswer(id string, a ack) error {
	if a.batch == id {
		return nil
	}
	// The stream did not recognise the batch. The other messages of it may or may not have been stored.
	return &publisher.Error{
		Class: publisher.Ambiguous, Scope: publisher.ScopeMessage, Short: "no batch",
		Err: fmt.Errorf("the stream %s has not taken the messages as one batch", a.by),
	}
}

// ofRun handles the answer to a run of an earlier call, for one of its messages.
func (l *lane) ofRun(b *batch, i int32, id string, a ack) {
	if a.refusal != nil || a.unheard {
		b.again(i, head) // it was not stored
	} else {
		b.answer(i, runAnswer(id, a))
	}
}

// undo sends the messages of a run one by one. None of them was stored.
func (l *lane) undo(b *batch) {
	l.run.id = ""
	for _, i := range l.run.messages {
		b.again(i, waits)
	}
	for _, i := range l.run.heads {
		b.state[i] = head
		b.due = append(b.due, i)
	}
}
