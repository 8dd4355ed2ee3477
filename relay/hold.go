package relay

import "time"

// cause says why rows are held; it is the label reason of rows_held.
type cause string

const (
	causeRetry       cause = "retry"       // refused, waiting for the next try
	causeTopology    cause = "topology"    // the topic, stream, exchange or queue is missing
	causeUnavailable cause = "unavailable" // the broker, the topic or the partition is down
	causeFailed      cause = "failed"      // would have failed, but the table cannot say so
	causeOrder       cause = "order"       // behind a row of the same key that is under way elsewhere
)

var causes = []cause{causeRetry, causeTopology, causeUnavailable, causeFailed, causeOrder}

// hold is a destination or topic that cannot be published to now. While it is active nothing goes
// there but one probe at a time, which is a real batch.
type hold struct {
	cause    cause
	err      error
	failures int // in a row; 0 when nothing is held
	until    time.Time
	probing  bool
	blocks   map[*block]struct{} // keys that wait for it
	// skipped: rows without a key were passed over, the first at the ordinal from. They are walked to
	// again when the hold ends.
	skipped bool
	from    int64
}

func (h *hold) active() bool { return h != nil && h.failures > 0 }

// fail begins the hold or prolongs it, and reports whether it began.
func (h *hold) fail(c cause, err error, now time.Time) bool {
	h.cause, h.err = c, err
	h.failures++
	h.until, h.probing = now.Add(pause(h.failures)), false
	return h.failures == 1
}

// skip passes over a row without a key.
func (h *hold) skip(ordinal int64) {
	if !h.skipped || ordinal < h.from {
		h.from = ordinal
	}
	h.skipped = true
}

// topic names a topic of a destination.
type topic struct {
	destination *destination
	name        string
}
