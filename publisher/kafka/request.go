package kafka

import (
	"time"

	"github.com/segmentio/kafka-go/protocol"
)

// A request is something to send to a broker, and later its outcome. From post until it is received from back, it
// belongs to the broker's goroutine.
type request struct {
	message protocol.Message
	back    chan<- *request // has room for the request
	// group whose batches it carries; nil for a question, which is small and harmless to ask twice
	group    *group
	size     int           // total size of the batches
	since    time.Time     // start of its call: if other brokers have answered since, the call must not wait for long
	deadline time.Time     // deadline of the caller; zero if there is none
	limit    time.Duration // time limit for an answer
	// not given up before the limit, because the broker would not recognise the batches if they were sent again
	patient bool
	dial    bool // dial even if a dial has just failed, and wait for the result

	posted    time.Time
	sent      time.Time     // zero if not sent yet
	wait      time.Duration // time that the answer may take before it is late
	late      time.Time     // when to check whether other brokers answer, so that this request is given up
	conn      *conn         // connection on which it was sent
	suspected bool          // the broker was a suspect when the request was sent
	withdrawn bool          // the caller no longer waits for the request

	ending   ending
	response protocol.Message // response, if replied
	err      error            // error, if not replied; for refused and unreached, detailed enough to be an answer
}

// An ending is the outcome of a request.
type ending uint8

const (
	// replied: the response has come.
	replied ending = iota
	// unreached: not sent, because there is no connection.
	unreached
	// refused: not sent, because the broker is a suspect or requests a pause.
	refused
	// withdrawn: not sent, because the caller no longer waits for it.
	withdrawn
	// lost: sent, perhaps in part, and then the connection ended or the caller no longer waited for the answer.
	lost
	// unheard: sent, and given up because no answer came.
	unheard
)

// within returns the duration, or half of the time that the deadline leaves if that is shorter.
func (r *request) within(d time.Duration, now time.Time) time.Duration {
	if r.deadline.IsZero() {
		return d
	}
	return min(d, r.deadline.Sub(now)/2)
}
