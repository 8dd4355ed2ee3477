package kafka

import (
	"sync/atomic"
	"time"
)

// maxSequence is the last sequence number; 0 follows it, also within a batch. (Brokers refuse the negative numbers that
// would follow in an int32.)
const maxSequence = 1<<31 - 1

// A partition is the sending side of one partition of a topic: the right to send, the position of the sequence, and the
// batch with an unknown outcome. It lives until its topic is deleted or has not been used for a long time.
//
// One batch is on the wire at a time: if a second one followed, a refusal of the first would leave a gap in the
// sequence, for which the second is refused as well. A batch without an answer stays with the partition across calls.
// Nothing else is sent until the same bytes have been sent again and answered. The broker recognises them by their
// sequence, so that they are in the log exactly once.
//
//	      build            answered: accepted
//	none ────────▶ sent ─────────────────────▶ none, sequence + n
//	               │  ▲    refused ──────────▶ none, same sequence
//	 no answer, or │  │    sequence lost ────▶ none, epoch + 1, sequence 0
//	 one that      │  │
//	 proves nothing▼  │ resend
//	              unsure ────────────────────▶ kept, with its messages, when the call ends;
//	                                           a later call resends it first
type partition struct {
	topic string
	index int32
	turn  chan struct{} // holds a token while a job uses the partition; jobs get it in the order in which they ask

	avoided atomic.Int64 // time in nanoseconds until which free messages avoid the partition; 0 if it has no trouble

	// The topic was deleted. If it is created again, another partition takes the place of this one.
	dead atomic.Bool

	// The following fields belong to the holder of the turn.

	producer producer
	sequence int32     // number of the next new batch
	batch    *batch    // batch that is sent or about to be sent, and is not resolved
	aged     time.Time // last time that an old record was refused; zero if never
}

// A batch holds encoded messages of one partition.
type batch struct {
	partition *partition
	bytes     []byte // with a size prefix
	count     int32
	unsure    bool // the batch was sent, and no answer has ruled out that it is in the log
	kept      bool // its messages are in the publisher's table of kept messages

	// The following fields are set once the batch is kept.

	since   time.Time    // time at which that was
	given   atomic.Int64 // time at which a call last had a message of the batch, in Unix nanoseconds
	outcome atomic.Int32 // kept.State: Answered or Lost once it is known
}

// newPartition returns a partition without a producer. It takes the id of the call that first sends to it.
func newPartition(topic string, index int32) *partition {
	return &partition{topic: topic, index: index, turn: make(chan struct{}, 1), producer: producer{id: unknownProducer}}
}

// begin makes the next batch the first of a new sequence, with a new epoch of the producer id. The broker accepts the
// new epoch without further requests, and rejects what may still arrive from the old one. After the last epoch of an id
// come negative ones, which the broker rejects, so that the partition takes another id.
func (p *partition) begin() {
	p.sequence = 0
	p.producer.epoch++
}
