package kafka

import (
	"sync/atomic"
	"time"
)

// maxSequence is the last sequence number; 0 follows. (The negative numbers that an int32 would go on
// with are refused.)
const maxSequence = 1<<31 - 1

// maxEpoch is the last epoch of a producer id.
const maxEpoch = 1<<15 - 1

// A partition is the sending side of one partition: who may send, where the sequence stands, and the
// batch whose outcome is not known. It lives until its topic
// is gone, or was not used for long.
//
// One batch is on the wire at a time. A batch that went unanswered stays, across calls, and nothing
// else is sent before the same bytes, sent again, have been answered: the broker recognises them by
// their sequence, so that they end in the log exactly once.
//
//	      build            answered: accepted
//	none ────────▶ sent ─────────────────────▶ none, sequence + n
//	               │  ▲    refused ──────────▶ none, same sequence
//	 no answer, or │  │    sequence lost ────▶ none, epoch + 1, sequence 0
//	 one that      │  │
//	 proves nothing▼  │ resend
//	              unsure ────────────────────▶ kept, its ids in recall, when the call ends;
//	                                           a later call resends it first
type partition struct {
	topic string
	index int32
	turn  turn

	avoided atomic.Int64 // time in nanoseconds until which free messages avoid the partition; 0 when it has no trouble

	// The rest belongs to whoever has the turn.

	producer producer
	sequence int32  // of the next new batch
	batch    *batch // sent or about to be, and not resolved
	limit    int    // uncompressed bytes of a batch that the topic takes, as far as it has refused larger ones
	limited  time.Time
	maxAge   time.Duration // of records, as far as the topic has refused older ones
	aged     time.Time     // when that was learned; zero is never
	behind   time.Time     // the batch, which its replicas have not got yet, is not sent again before
	dead     bool          // the topic was deleted; another partition stands for this one if it is made again
}

// A batch is encoded messages of one partition.
type batch struct {
	partition *partition
	bytes     []byte // with size prefix
	plain     int    // length of bytes before compression, which is what batches are filled by
	count     int32
	oldest    int64 // time of a record, in milliseconds
	unsure    bool  // was sent, and may be in the log for all that was answered
	kept      bool  // is in recall

	unheard bool // unsure only because the broker did not know the topic

	// When kept, and guarded by recall:

	ids      []string
	since    time.Time // when it was kept
	given    time.Time // when a message of it was last given
	accepted time.Time
}

func newPartition(topic string, index int32) *partition {
	return &partition{topic: topic, index: index, producer: producer{id: unknownProducer}}
}

// maxBytes is the size up to which batches are filled. A topic's limit may be raised, so what was
// learned from a refusal is forgotten after a minute.
func (p *partition) maxBytes(now time.Time) int {
	if p.limit > 0 && now.Sub(p.limited) < time.Minute {
		return p.limit
	}
	return maxBatchBytes
}

// advance moves the sequence past a batch that is in the log.
func (p *partition) advance(count int32) {
	p.sequence = int32((int64(p.sequence) + int64(count)) & maxSequence)
}

// begin makes the next batch the first of a new sequence: a new epoch of the producer id, which the
// broker takes unasked, and which shuts out what may still be under way from the old one. It reports
// false when the id has no epochs left.
func (p *partition) begin() bool {
	p.sequence = 0
	if p.producer.epoch == maxEpoch {
		return false
	}
	p.producer.epoch++
	return true
}
