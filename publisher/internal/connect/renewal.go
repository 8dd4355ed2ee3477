package connect

import (
	"time"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
)

// renewPause is how long a connection is left alone after its credentials could not be renewed. Calls may have to wait
// while it is tried, and the broker logs each refusal.
const renewPause = 10 * time.Second

// A Renewal is what is known of tries to give a connection new credentials. If they fail, the connection stays as it
// is. The zero Renewal is ready for use, by one goroutine at a time.
type Renewal struct {
	next time.Time // earliest time of the next try
	why  string    // reason of the last failed try
}

// Due reports whether a try may begin now.
func (r *Renewal) Due() bool { return !time.Now().Before(r.next) }

// Ended notes the outcome of a try. It reports whether there is a failure to be logged: the same one is logged once. A
// success lets the next try begin at any time.
func (r *Renewal) Ended(err error) (news bool) {
	if err == nil {
		*r = Renewal{}
		return false
	}
	r.next = time.Now().Add(renewPause)
	before := r.why
	r.why = errtext.Line(err)
	return r.why != before
}
