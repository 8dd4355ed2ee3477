package nats

import (
	"context"
	"errors"
	"fmt"
	"strconv"

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
	// batchLimit is the maximum number of messages in one atomic batch, unless a server is configured otherwise.
	batchLimit = 1000
	// headroom is the size of a header line without the row's own name or value.
	headroom = 64
)

// A run is an atomic batch (ADR-50): messages of one stream that are stored all or not at all, and therefore in order
// without waiting for each other. The server answers the last message, which commits the others. If it refuses, nothing
// was stored, and the messages go one by one so that each gets an answer. A call has one run in flight at a time.
type run struct {
	hot      []int32 // heads of keys that wait for the next run
	messages []int32 // messages of this run, in the order in which they are sent
	stream   *stream
	id       string // empty while no run is in flight
	number   uint64 // number of runs of this memory so far
}

// last is the message whose answer is that of the run.
func (r *run) last() int32 { return r.messages[len(r.messages)-1] }

// heat makes a head wait for the next run, if its key has enough messages and its stream takes atomic batches.
func (c *call) heat(first int32) bool {
	if int(c.rest[first]) < c.link.p.hot {
		return false
	}
	s := c.link.ask(c.messages[first].Topic, freshFor)
	if s == nil || !s.atomic.Load() || int(c.rest[first]) < s.worth {
		return false
	}
	c.run.hot = append(c.run.hot, first)
	return true
}

// sendRun sends a run of the waiting keys. Keys that do not fit keep waiting. sendRun reports whether the connection
// was found gone. In that case, and whenever the last message was not sent, nothing is stored.
func (c *call) sendRun(ctx context.Context) (gone bool) {
	r := &c.run
	c.collect()
	if r.stream == nil || len(r.messages) < max(r.stream.worth, 1) {
		c.single(r.messages)
		return false
	}
	r.number++
	id := c.link.inbox[len(c.link.inboxes):] + strconv.FormatUint(c.number, 36) + "_" + strconv.FormatUint(r.number, 36)
	for n, i := range r.messages {
		if ctx.Err() != nil {
			return false
		}
		reply, last := "", n == len(r.messages)-1
		if last {
			reply = c.address(i)
		}
		message := c.wire.build(&c.messages[i], reply)
		c.wire.add(headerBatch, id)
		c.wire.add(headerSequence, strconv.Itoa(n+1))
		if last {
			c.wire.add(headerCommit, "1")
		}
		if err := c.post(message); errors.Is(err, errGone) {
			return true
		} else if err != nil { // the message gets the same answer when it is sent alone
			c.single(r.messages)
			return false
		}
	}
	r.id = id
	for _, i := range r.messages {
		c.sends(i)
	}
	return false
}

// collect fills the run with messages of one stream, key by key. A message that may be refused for a reason of its own
// ends its key's part. A key of another stream waits for a later run, and so does a key for which there is no room.
func (c *call) collect() {
	r := &c.run
	waiting := r.hot
	r.hot, r.messages = r.hot[:0], r.messages[:0]
	r.stream = c.link.streams.find(c.messages[waiting[0]].Topic)
	size := 0
	for _, first := range waiting {
		if c.passOver(first) {
			continue
		}
		i := first
		for i != keyorder.None && len(r.messages) < batchLimit && size < runBytes && c.fits(&c.messages[i]) &&
			c.link.streams.find(c.messages[i].Topic) == r.stream {
			r.messages = append(r.messages, i)
			size += c.messages[i].Size()
			i = c.keys.Next[i]
		}
		if i == first && !(c.fits(&c.messages[first]) && c.heat(first)) {
			c.single([]int32{first})
		}
	}
}

// single makes messages go one by one. Those that follow another one of their key wait for it.
func (c *call) single(messages []int32) {
	for _, i := range messages {
		c.rest[i] = 0
		if c.state[i] == head {
			c.due = append(c.due, i)
		}
	}
}

// fits reports whether the message may be part of a run, which means that nothing in the message itself will cause a
// refusal.
func (c *call) fits(m *publisher.Message) bool {
	if m.Topic != c.good {
		if checkSubject(m.Topic, c.link.inboxes) != nil {
			return false
		}
		c.good = m.Topic
	}
	return check(m) == nil &&
		int64(m.Size()+len(m.DedupID)+headroom*(len(m.Headers)+10)) <= c.link.nc.MaxPayload()
}

// errBatchesOff answers a run if the stream takes none any more, errBatchTooLarge if the server takes fewer messages.
const (
	errBatchesOff    = 10174
	errBatchTooLarge = 10199
)

// committed handles the answer to a run.
func (c *call) committed(a ack) {
	r := &c.run
	refused := a.refusal != nil || a.unheard
	if !refused && a.batch != r.id ||
		a.refusal != nil && (a.refusal.ErrCode == errBatchesOff || a.refusal.ErrCode == errBatchTooLarge) {
		r.stream.atomic.Store(false)
	}
	if refused {
		c.undo()
		return
	}
	err := runAnswer(r.id, a)
	r.id = ""
	for _, i := range r.messages {
		c.settles(i, err)
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

// undo sends the messages of a run one by one. None of them was stored.
func (c *call) undo() {
	c.run.id = ""
	for n, i := range c.run.messages {
		c.waiting--
		if c.state[i] = head; n > 0 && c.keys.Next[c.run.messages[n-1]] == i {
			c.state[i] = waits
		}
	}
	c.single(c.run.messages)
}
