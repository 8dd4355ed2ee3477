package kafka

import (
	"time"

	"github.com/segmentio/kafka-go/protocol"
)

// A request is what a broker is to be sent, and then what became of it. From post until it comes back through back it belongs
// to the broker's goroutine.
type request struct {
	message  protocol.Message
	back     chan<- *request // has room for it
	group    *group          // whose batches it carries; nil is a question: small, and harmless to ask twice
	size     int             // of the batches
	since    time.Time       // when its call began: if others have answered since, the call is not to wait for long
	deadline time.Time       // of whoever waits for it; zero is none
	limit    time.Duration   // for an answer
	patient  bool            // not given up before the limit: nobody would recognise what is sent again
	dial     bool            // dial also where a dial has just failed, and wait for that

	posted    time.Time
	sent      time.Time     // zero: not yet
	wait      time.Duration // how long it may take the answer before it is late
	late      time.Time     // when to look whether others answer, so that it is to be given up
	conn      *conn         // on which it was sent
	suspected bool          // the broker was a suspect when it was sent
	withdrawn bool          // whoever waited for it does no more

	ending   ending
	response protocol.Message // if replied
	err      error            // if not; for refused and unreached it is complete enough to be an answer
}

// An ending is what became of a request.
type ending uint8

const (
	// replied: the response is there.
	replied ending = iota
	// unreached: not sent, since there is no connection.
	unreached
	// refused: not sent, since the broker is suspected or asks for a pause.
	refused
	// withdrawn: not sent, since nobody waits for it any more.
	withdrawn
	// lost: sent, perhaps in part, and the connection ended, or nobody waits for the answer any more.
	lost
	// unheard: sent, and given up for want of an answer.
	unheard
)

// within returns the time, or half of what the deadline leaves if that is shorter.
func (r *request) within(d time.Duration, now time.Time) time.Duration {
	if r.deadline.IsZero() {
		return d
	}
	return min(d, r.deadline.Sub(now)/2)
}
