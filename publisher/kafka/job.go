package kafka

import (
	"context"
	"fmt"
	"slices"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/kept"
)

// A job holds what one call has to send to one partition in one wave. It is used while holding the partition's turn.
// All its fields belong to the goroutine of Publish. The batch itself belongs to the partition, because it outlives the
// job if its outcome stays unknown. The messages of the batch are those at queue[next : next+sent]; what comes before
// them has its answers.
type job struct {
	call      *call
	partition *partition
	leader    *broker
	queue     []int32 // indexes of the messages, in order
	next      int     // position in queue of the first message without an answer
	sent      int     // number of messages after next that are in partition.batch; 0 if the batch is kept
	most      int     // maximum number of records of a batch, after a larger one was refused; 0 if there is none
	state     jobState

	again      bool  // the one automatic resend or relocation is used up
	renewed    bool  // a new sequence was begun since a batch was last accepted
	unanswered error // why the batch, sent in this call, was not answered
	strikes    int   // number of single records refused for a reason that may be the broker's
}

// A jobState is what a job waits for.
type jobState uint8

const (
	// waiting: the job has not had the turn of its partition, which another call may use.
	waiting jobState = iota
	// ready: the job has the turn of its partition, and may send.
	ready
	// sending: its batch is in a request that is under way, or it gives a leader a moment to begin.
	sending
	// moved: the leader must be looked up, to send the batch there.
	moved
	// finished: all messages have their answers, and the turn was returned.
	finished
)

// handover is how long a call follows a partition from leader to leader. It is short, because the answers for other
// partitions wait meanwhile.
const handover = time.Second

// maxStrikes is how many records of a job may be refused alone for a reason that may not be theirs. A broker that fails
// on everything would otherwise be sent each record of each call alone.
const maxStrikes = 3

// prepare builds the batch to be sent next, unless there is one already. It reports false if nothing is left to send;
// the job is then done. A batch of an earlier call comes first, whoever needs its messages: until it is resolved,
// nobody knows with which sequence the next batch begins.
func (j *job) prepare() bool {
	c, p := j.call, j.partition
	if p.batch != nil && p.batch.kept && p.batch.expired(c.now) {
		j.drop()
	}
	if p.batch != nil {
		return true
	}
	j.compact()
	switch {
	case j.next == len(j.queue):
		j.finish()
		return false
	// Half of the publish timeout is over, or the relay stops. What is on the wire is still waited for, so that few
	// batches are unresolved when the call ends.
	case c.stop.Closed():
		j.fail(publisher.ErrNotAttempted)
		return false
	// The id was retired after this call had read it. A partition that began with it could repeat a sequence that
	// brokers remember from a deleted topic of the same name.
	case p.producer.id == unknownProducer && c.publisher.producer.Load() != c.producer:
		j.fail(p.unavailable("sequence refused", "the producer id is not used any more"))
		return false
	case p.producer.id == unknownProducer:
		p.producer = producer{id: c.producer}
	}
	queue := j.queue[j.next:]
	if j.most > 0 && j.most < len(queue) {
		queue = queue[:j.most]
	}
	b := &batch{partition: p, bytes: c.publisher.buffer()}
	b.bytes, j.sent = appendBatch(b.bytes, c.messages, queue, maxBatchBytes, p.producer, p.sequence,
		p.clock(c.now, c.publisher.config.SendingTime))
	b.bytes = c.publisher.compress(b.bytes)
	seal(b.bytes)
	b.count = int32(j.sent)
	p.batch = b
	if len(b.bytes) > maxRecordBytes { // a single record
		// The broker would close the connection without an answer, and the whole partition would be held.
		j.answered(kafkago.MessageSizeTooLarge, "larger than any Kafka request")
		return j.prepare()
	}
	return true
}

// resends reports whether the job has a batch to send that was sent in an earlier call.
func (j *job) resends() bool {
	return j.partition.batch != nil && j.partition.batch.kept
}

// compact removes from the queue what must not be sent: messages after a failed message of their key, and messages
// whose batch from an earlier call was found to be accepted. A message may get into the queue before its batch of an
// earlier call is resolved: that batch is sent first, by this very job, and its answer settles the message.
func (j *job) compact() {
	c := j.call
	j.queue = slices.DeleteFunc(j.queue[j.next:], func(i int32) bool {
		if c.blocked(i) {
			return true
		}
		_, accepted := c.kept(i)
		if accepted {
			c.errs[i] = nil
		}
		return accepted
	})
	j.next = 0
}

// answered applies the broker's answer to the batch that was sent. classify says what each code means; here follows
// what is done with the batch.
func (j *job) answered(code kafkago.Error, detail string) {
	p := j.partition
	v := classify(code)
	if v.action == accept {
		j.accepted()
		return
	}
	err := fmt.Errorf("topic %q partition %d: %w", p.topic, p.index, code)
	if detail != "" {
		err = fmt.Errorf("%w: %s", err, detail)
	}
	// Only an answer of this batch's own can rule out that it is in the log. A refusal after a lost answer does not:
	// the first try may have been appended before the reason for the refusal arose.
	unsure := p.batch.unsure
	p.batch.unsure = unsure || v.unsure
	switch v.action {
	case divide:
		j.divide(v, err)
	case retime:
		if !j.retime() {
			j.fail(j.answer(v, fmt.Errorf("%w: compare this host's clock with the brokers'", err)))
		}
	case renew:
		// The epoch is the client's own choice: the broker accepts the next one with sequence 0, without being asked
		// for it. If the batch may be in the log, drop has begun it already.
		if j.drop(); !unsure {
			p.begin()
		}
		// A new sequence that is refused as well shows that the id itself is at fault, for example because it belongs
		// to a transaction, or because its 32,768 epochs are used up. The next call takes another id.
		if j.renewed {
			// Other partitions keep it for as long as brokers accept it from them.
			j.call.publisher.retire(p.producer.id)
			p.producer.id = unknownProducer
			j.fail(j.answer(v, err))
			return
		}
		j.renewed = true
		j.call.publisher.config.Logger.Info("kafka partition begins a new epoch",
			"topic", p.topic, "partition", p.index, "error", code)
	case relocate:
		// The leader that the metadata names may need a moment to begin, and the batch may be in its log already: a
		// shard that moved to another replica before the outcome is known would be published twice.
		switch {
		case !j.again:
			j.again, j.state = true, moved
		case time.Since(j.call.now) < handover:
			j.state = sending // until the pause is over
			j.call.begin(func() { <-time.After(handover / 20) }, func() { j.state = moved })
		default:
			j.fail(j.answer(v, err))
		}
	case keep:
		// The batch is in the leader's log, and nobody knows whether it will be in that of the next leader.
		j.unanswered = err
		v.class = publisher.Unavailable // for messages that were not sent
		j.fail(j.answer(v, err))
	default:
		j.fail(j.answer(v, err))
	}
}

// accepted answers the messages of the batch, which is in the log. A batch of an earlier call has no messages here: its
// callers are told when they give the messages again. After a division, the allowed number of records doubles with each
// accepted batch, so that one bad record costs small batches only around itself.
func (j *job) accepted() {
	p, b := j.partition, j.partition.batch
	for _, i := range j.queue[j.next : j.next+j.sent] {
		j.call.errs[i] = nil
	}
	j.next += j.sent
	b.outcome.Store(int32(kept.Answered))
	// A batch that crosses the end of the sequence is not divided: brokers accept that it wraps within.
	p.sequence = int32((int64(p.sequence) + int64(b.count)) & maxSequence)
	p.avoided.Store(0)
	j.release()
	j.again, j.renewed, j.most = false, false, 2*j.most
}

// divide gives up a batch that was refused as a whole. A single record gets its answer; several are halved, so that one
// bad record among 1,000 is found with ten further requests, and the next batches grow again.
func (j *job) divide(v verdict, err error) {
	sent := j.sent
	j.drop()
	if sent > 1 {
		j.most = sent / 2
	}
	if sent != 1 {
		return
	}
	if v.class == publisher.Permanent { // too large
		size := len(appendBody(nil, &j.call.messages[j.queue[j.next]]))
		err = fmt.Errorf("topic %q takes no record of %d bytes: raise its max.message.bytes, "+
			"or make the row smaller: %w", j.partition.topic, size, err)
	}
	j.refuse(j.queue[j.next], j.answer(v, err))
	j.next++
	// A schema or a policy may refuse any number of records, each for itself, and the others of the partition go on.
	// Only errors without a known meaning count as strikes.
	if v.class != publisher.Unavailable { // the record itself is refused
		return
	}
	if j.strikes++; j.strikes == maxStrikes {
		v.action = refuse // it is the partition's trouble
		j.fail(j.answer(v, fmt.Errorf("several messages were refused: %w", err)))
	}
}

// missed applies the outcome of a request that was not answered. If it was sent, the broker recognises the batch when
// it comes again, and if it was not, another broker may be the leader by now: the batch is sent again at once, the
// first time. After a request that was given up, nothing more is sent for the job in this call. The resend costs a
// round trip and no copy; without it, each idle connection that was closed on the way would hold rows until the
// caller's next try.
func (j *job) missed(ctx context.Context, r *request) {
	sent := !r.sent.IsZero()
	if sent {
		j.partition.batch.unsure, j.unanswered = true, r.err
	}
	switch {
	// The end of the call says nothing about the broker.
	case ctx.Err() != nil || sent && !r.final && over(ctx):
		j.fail(j.call.ended())
	// The broker is a suspect or asks for a pause, or the one resend of the call is used up.
	case r.final || j.again:
		j.fail(r.err)
	default:
		j.again, j.state = true, moved
	}
}

// fail ends the job. Messages that were sent in this call and not answered are ambiguous, and their batch is kept. The
// others are answered with err. A batch whose outcome is unknown must outlive the call, because sending its messages as
// another batch could append them twice. A batch that was certainly not appended is dropped, and its sequence is used
// again.
func (j *job) fail(err error) {
	c, ambiguous := j.call, j.ambiguous(err)
	var b *batch
	if j.state != waiting { // otherwise the batch is another job's
		b = j.partition.batch
	}
	for at, i := range j.queue[j.next:] {
		held, _ := c.kept(i)
		if j.unanswered != nil && (at < j.sent || held != nil && held == b) {
			c.fail(i, ambiguous)
		} else {
			j.refuse(i, err)
		}
	}
	if b != nil && !b.kept {
		if b.unsure {
			pooled := b.bytes
			b.bytes = slices.Clone(pooled) // the batch may stay for long, and the buffer may be much larger
			c.publisher.recycle(pooled)
			c.publisher.keep(b, c.messages, j.queue[j.next:j.next+j.sent], c.now)
		} else {
			j.drop()
		}
	}
	j.next, j.sent = len(j.queue), 0
	j.finish()
}

// refuse answers one message with err, unless the message waits for an earlier one of its key. Such a message stays not
// attempted, and nothing is spent for it.
func (j *job) refuse(i int32, err error) {
	if !j.call.blocked(i) {
		j.call.fail(i, err)
	}
}

// drop gives up the batch. Its bytes are never sent again. A batch that was refused does not use up its sequence. A
// batch that may still be in the log does use it up, and requires a new epoch: if its sequence were used again, the
// broker would take other messages for the batch and acknowledge them without appending them.
func (j *job) drop() {
	b := j.partition.batch
	b.outcome.Store(int32(kept.Lost))
	if b.unsure {
		// The broker may hold the messages, and will not recognise them. The relay counts these rows as published again
		// (outbox_relay_republished_total), also if they are accepted in the end.
		for _, i := range j.queue[j.next : j.next+j.sent] {
			j.call.copied[i] = true
		}
		j.partition.begin()
	}
	j.release()
}

// release ends the batch.
func (j *job) release() {
	b := j.partition.batch
	j.call.publisher.recycle(b.bytes)
	b.bytes = nil // the pool owns the bytes now, and the batch may be kept for long
	j.partition.batch, j.sent, j.unanswered = nil, 0, nil
}

// finish returns the turn, if the job has it. The next job that waits for the partition goes on at once, in this call
// or another.
func (j *job) finish() {
	if j.state != waiting && j.state != finished {
		<-j.partition.turn
	}
	j.state = finished
}
