package kafka

import (
	"fmt"
	"slices"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A job holds what one call has to send to one partition in one wave. It is used while holding the partition's turn.
type job struct {
	call      *call
	partition *partition
	leader    *broker
	queue     []int32 // indexes of the messages, in order
	next      int     // position in queue of the first message without an answer
	sent      int     // number of messages after next that are in partition.batch; 0 if the batch is kept
	ends      []int32 // messages before which a batch must end, the nearest last; from divided batches
	done      bool    // the turn was returned

	again      bool  // the one automatic resend or relocation is used up
	renewed    bool  // a new sequence was begun since a batch was last accepted
	moved      bool  // the leader must be looked up
	unanswered error // why the batch, sent in this call, was not answered
	strikes    int   // number of single records refused for a reason that may be the broker's
}

// maxStrikes is how many records of a job may be refused alone for a reason that may not be theirs.
const maxStrikes = 3

// prepare builds the batch to be sent next, unless there is one already. It reports false if nothing is left to send;
// the job is then done.
func (j *job) prepare() bool {
	p := j.partition
	if j.done {
		return false
	}
	if p.dead {
		j.fail(publisher.TopologyError(unknownTopic, "topic %q was deleted", p.topic))
		return false
	}
	if p.batch != nil && p.batch.kept && j.call.publisher.recall.expired(p.batch, j.call.now) {
		j.drop()
	}
	if p.batch != nil && p.batch.kept && time.Now().Before(p.laggingUntil) {
		j.fail(p.unavailable("not replicated yet", "a replica has stopped following the leader: look at its broker"))
		return false
	}
	if p.batch != nil {
		return true
	}
	if j.compact(); j.next == len(j.queue) {
		j.finish()
		return false
	}
	if j.call.stop.Closed() {
		j.fail(publisher.ErrNotAttempted)
		return false
	}
	if p.producer.id == unknownProducer {
		if id := j.call.publisher.identity.known.Load(); id != j.call.producer {
			j.fail(p.unavailable("sequence refused", "the producer id has no epochs left"))
			return false
		}
		p.producer = j.call.publisher.identity.first(j.call.producer)
	}
	if p.producer.id == noProducer && j.call.producer != noProducer { // idempotence has been allowed since
		p.producer, p.sequence = j.call.publisher.identity.first(j.call.producer), 0
	}
	for len(j.ends) > 0 && j.ends[len(j.ends)-1] <= j.queue[j.next] {
		j.ends = j.ends[:len(j.ends)-1]
	}
	queue := j.queue[j.next:]
	if len(j.ends) > 0 {
		end, _ := slices.BinarySearch(queue, j.ends[len(j.ends)-1])
		queue = queue[:end]
	}
	b := &batch{partition: p, bytes: j.call.publisher.buffer()}
	at := p.clock(j.call.now, j.call.publisher.config.SendingTime)
	b.bytes, j.sent = appendBatch(b.bytes, j.call.messages, queue, p.maxBytes(j.call.now), p.producer, p.sequence, at)
	b.oldest = at.oldest(j.call.messages, queue[:j.sent])
	b.plain = len(b.bytes)
	b.bytes = j.call.publisher.compress(b.bytes)
	seal(b.bytes)
	b.count = int32(j.sent)
	p.batch = b
	if len(b.bytes) > maxRecordBytes { // a single record
		j.answered(kafkago.MessageSizeTooLarge, "larger than any Kafka request")
		return j.prepare()
	}
	return true
}

// resends reports whether the job has a batch to send that was sent in an earlier call.
func (j *job) resends() bool {
	return !j.done && !j.moved && j.partition.batch != nil && j.partition.batch.kept
}

// compact removes from the queue what must not be sent: messages after a failed message of their key, and messages
// whose batch from an earlier call was found to be accepted.
func (j *job) compact() {
	c := j.call
	if !c.troubled && c.publisher.recall.size.Load() == 0 {
		return
	}
	left := j.queue[:j.next]
	for _, i := range j.queue[j.next:] {
		if c.blocked(i) {
			continue
		}
		if _, accepted := c.publisher.recall.find(&c.messages[i], c.now); accepted {
			c.errs[i] = nil
			continue
		}
		left = append(left, i)
	}
	j.queue = left
}

// answered applies the broker's answer to the batch that was sent.
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
	if v.unsure {
		unheard := code == kafkago.UnknownTopicOrPartition || code == kafkago.UnknownTopicID
		p.batch.unheard = unheard && (p.batch.unheard || !p.batch.unsure)
		p.batch.unsure = true
	}
	switch v.action {
	case divide, shrink:
		j.divide(v, err)
	case retime:
		if !j.retime() {
			j.fail(j.answer(v, fmt.Errorf("%w: it refuses the time of now as well: compare this host's clock with the brokers'", err)))
		}
	case renew:
		p.batch.unsure = true // so that dropping it begins a new epoch
		if j.drop(); p.producer.id == noProducer || j.renewed {
			j.call.publisher.identity.retire(p.producer.id)
			p.producer.id = unknownProducer
			j.fail(j.answer(v, err))
			return
		}
		j.renewed = true
		j.call.publisher.log.Info("kafka partition begins a new epoch", "topic", p.topic, "partition", p.index,
			"error", code)
	case relocate:
		if j.again {
			j.fail(j.answer(v, err))
			return
		}
		j.again, j.moved = true, true
	case keep:
		// The second time, the replicas are known to be at fault: messages with repeatedly unknown outcomes would
		// become suspect themselves.
		if !p.batch.kept {
			j.unanswered = err
		} else {
			p.laggingUntil = time.Now().Add(againPause)
		}
		v.class = publisher.Unavailable // for messages that were not sent
		j.fail(j.answer(v, err))
	default:
		j.fail(j.answer(v, err))
	}
}

// accepted answers the messages of the batch, which is in the log.
func (j *job) accepted() {
	p, b := j.partition, j.partition.batch
	for _, i := range j.queue[j.next : j.next+j.sent] {
		j.call.errs[i] = nil
	}
	j.next += j.sent
	if b.kept {
		j.call.publisher.recall.accept(b, j.call.now)
	}
	p.advance(b.count)
	p.turn.progress()
	p.avoided.Store(0)
	j.release()
	j.again, j.renewed = false, false
}

// divide gives up a batch that was refused as a whole. A single record gets its answer; several are halved.
func (j *job) divide(v verdict, err error) {
	p, b, sent := j.partition, j.partition.batch, j.sent
	if v.action == shrink && b.count > 1 {
		p.limit, p.limited = b.plain/2, j.call.now
	}
	j.drop()
	if sent > 1 && v.action == divide {
		j.ends = append(j.ends, j.queue[j.next+sent/2])
	}
	if sent != 1 {
		return
	}
	if v.action == shrink {
		err = fmt.Errorf("topic %q takes no record of %d bytes: raise its max.message.bytes, or make the row smaller: %w", p.topic,
			bodySize(&j.call.messages[j.queue[j.next]]), err)
	}
	j.refuse(j.queue[j.next], j.answer(v, err))
	j.next++
	if v.class == publisher.Permanent || v.examined {
		return
	}
	if j.strikes++; j.strikes == maxStrikes {
		j.fail(publisher.WithFate(publisher.UnavailableError(publisher.ScopeMessage, v.short,
			"several messages were refused: %w", err),
			partitionFate(p.topic, p.index)))
	}
}

// gone handles a job whose topic does not exist. If the leader's only answers to the batch were that it does not know
// the topic, the batch is in no log.
func (j *job) gone(err error) {
	if b := j.partition.batch; b != nil && b.unheard && publisher.ShortOf(err) == unknownTopic {
		b.unsure = false
		j.drop()
	}
	j.fail(err)
}

// lost notes that the batch was sent and no answer came. The first time, the same bytes are sent again at once, if the
// broker will recognise them.
func (j *job) lost(err error) {
	j.partition.batch.unsure, j.partition.batch.unheard, j.unanswered = true, false, err
	if j.again || j.partition.producer.id == noProducer {
		j.fail(j.leader.unavailable(j.call.publisher.cluster.unreachable(), shortOf(err), "%w", err))
		return
	}
	j.again, j.moved = true, true
}

// unsent notes that the leader could not be reached. Another broker may be the leader by now.
func (j *job) unsent(err error) {
	if j.again {
		j.fail(err)
		return
	}
	j.again, j.moved = true, true
}

// fail ends the job. Messages that were sent in this call and not answered are ambiguous, and their batch is kept. The
// others are answered with err.
func (j *job) fail(err error) {
	c, b := j.call, j.partition.batch
	var ambiguous outcome
	if j.unanswered != nil {
		ambiguous = c.outcome(j.partition, j.ambiguous(err))
	}
	others := c.outcome(j.partition, err)
	for at, i := range j.queue[j.next:] {
		if j.unanswered != nil && (at < j.sent || b.kept && c.publisher.recall.holds(b, &c.messages[i])) {
			c.fail(i, ambiguous.of(c, i))
		} else {
			j.refuse(i, others.of(c, i))
		}
	}
	if b != nil && !b.kept {
		if b.unsure && j.partition.producer.id != noProducer {
			b.kept = true
			pooled := b.bytes
			b.bytes = slices.Clone(pooled) // the batch may stay for long, and the buffer may be much larger
			c.publisher.recycle(pooled)
			c.publisher.recall.keep(b, c.messages, j.queue[j.next:j.next+j.sent], c.now)
		} else {
			j.drop()
		}
	}
	j.next, j.sent = len(j.queue), 0
	j.finish()
}

// refuse answers one message with err, unless the message waits for an earlier one of its key.
func (j *job) refuse(i int32, err error) {
	if !j.call.blocked(i) {
		j.call.fail(i, err)
	}
}

// drop gives up the batch. Its bytes are never sent again. A batch that was refused does not use up its sequence. A
// batch that may still be in the log does use it up, and requires a new epoch: if its sequence were used again, the
// broker would take other messages for the batch and acknowledge them without appending them.
func (j *job) drop() {
	p, b := j.partition, j.partition.batch
	if b.kept {
		j.call.publisher.recall.forget(b)
	}
	if b.unsure && p.producer.id != noProducer && !p.begin() {
		j.call.publisher.identity.retire(p.producer.id)
		p.producer.id = unknownProducer
	}
	j.release()
}

// release ends the batch.
func (j *job) release() {
	b := j.partition.batch
	j.call.publisher.recycle(b.bytes)
	b.bytes = nil // the pool owns the bytes now, and recall may hold the batch for long
	j.partition.batch, j.sent, j.unanswered = nil, 0, nil
}

// finish returns the turn.
func (j *job) finish() {
	if !j.done {
		j.done = true
		j.partition.turn.release()
	}
}
