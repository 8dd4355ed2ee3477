package kafka

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher/internal/connect"
)

// A broker is one address of the cluster. Its goroutine, run, owns the connections, the dials, what is sent on the
// connections, and what is known of the broker's condition; see the package comment. The goroutine starts with the
// first request. It ends when the publisher is closed or when the cluster no longer names the address. It never waits
// for anything except the next event.
type broker struct {
	publisher *Publisher
	address   string

	begin       sync.Once
	posts       chan *request
	withdrawals chan *request
	pokes       chan struct{} // a request would be sent if there were a connection
	drop        chan struct{} // closed when the cluster no longer names the address
	gone        chan struct{} // closed when run has ended; no request is accepted after that

	shown atomic.Pointer[standing]
	heard atomic.Int64 // time in nanoseconds of the last answer to a produce request

	// The following fields belong to run.

	state   standing
	queue   []*request // requests that wait for a connection, or for the end of a short pause
	flights []*request // requests that are sent and not answered
	landed  chan *request
	idle    []*conn
	ended   []*request // requests to hand back after the standing is shown
	leaving bool       // run ends as soon as nothing is under way

	dials     chan dialled
	dialling  int       // number of dials under way
	wanted    bool      // a request has not been sent since the last dial began
	verify    bool      // dial at once, to learn whether the broker is still there
	retry     time.Time // earliest time of the next dial
	away      bool      // the log says that the broker cannot be reached
	noted     time.Time // time at which a request without an answer was last counted
	silent    bool      // the log says that the broker does not answer
	asking    *request  // the request that may wait for the answer of a suspect
	overQuota time.Time // last time that a long pause was requested; zero once that state is over
}

// A standing is what other goroutines may know of a broker. It is never changed after it has been shown.
type standing struct {
	connected bool
	// why nothing is sent without a connection, from the last dial; nil while a request may wait for the next dial
	failed  error
	backoff connect.Backoff // pause between dials
	// number of consecutive requests without an answer; the broker is a suspect unless it is zero
	silences int
	asked    bool      // a call waits for the suspect
	until    time.Time // time before which no call waits for the suspect
	paused   time.Time // time before which the broker reads no produce request
	waits    time.Time // time at which the oldest unanswered question was sent; zero if there is none
}

func newBroker(p *Publisher, address string) *broker {
	b := &broker{
		publisher: p, address: address, posts: make(chan *request), withdrawals: make(chan *request), pokes: make(chan struct{}, 1),
		drop: make(chan struct{}), gone: make(chan struct{}), landed: make(chan *request), dials: make(chan dialled),
	}
	b.shown.Store(&standing{})
	return b
}

// post hands the request to the broker. The request always comes back.
func (b *broker) post(r *request) {
	b.begin.Do(func() {
		if !b.publisher.life.start(b.run) {
			close(b.gone)
		}
	})
	r.posted, r.sent, r.conn, r.withdrawn, r.response = time.Now(), time.Time{}, nil, false, nil
	select {
	case b.posts <- r:
	case <-b.gone:
		r.ending, r.err = unreached, b.left()
		r.back <- r
	}
}

// withdraw makes a request come back soon. Nothing more of it is written after that.
func (b *broker) withdraw(r *request) {
	select {
	case b.withdrawals <- r:
	case <-b.gone:
	}
}

// poke makes run dial a broker to which something would be sent.
func (b *broker) poke() {
	select {
	case b.pokes <- struct{}{}:
	default:
	}
}

// run handles one event after another and sends what can be sent.
func (b *broker) run() {
	defer close(b.gone)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	over, drop := b.publisher.life.over, b.drop
	for !b.leaving || len(b.flights)+b.dialling > 0 {
		select {
		case r := <-b.posts:
			b.admit(r)
		case r := <-b.withdrawals:
			b.giveUp(r)
		case r := <-b.landed:
			b.land(r)
		case d := <-b.dials:
			b.dialled(d)
		case <-b.pokes:
			b.wanted = true
		case <-timer.C:
		case <-drop:
			b.leaving, drop = true, nil
			cancel()
		case <-over:
			b.leaving, over = true, nil
			cancel()
			for _, r := range b.flights {
				r.conn.close()
			}
		}
		wake := b.dispatch(ctx, time.Now())
		b.show()
		for _, r := range b.ended {
			r.back <- r
		}
		clear(b.ended)
		b.ended = b.ended[:0]
		if timer.Stop(); !wake.IsZero() {
			timer.Reset(time.Until(wake))
		}
	}
}

// show publishes the standing to other goroutines.
func (b *broker) show() {
	b.state.connected = len(b.idle)+len(b.flights) > 0
	b.state.asked = b.asking != nil
	b.state.waits = time.Time{}
	if at := slices.IndexFunc(b.flights, func(r *request) bool { return r.group == nil }); at >= 0 {
		b.state.waits = b.flights[at].sent
	}
	if *b.shown.Load() != b.state {
		s := b.state
		b.shown.Store(&s)
	}
}

// standing returns what was known of the broker a moment ago.
func (b *broker) standing() *standing { return b.shown.Load() }

// admit queues a request, unless the broker refuses it.
func (b *broker) admit(r *request) {
	if r.group != nil {
		if err := b.refusal(&b.state, r.deadline); err != nil {
			b.end(r, refused, err)
			return
		}
		if b.state.silences > 0 {
			b.asking = r
		}
	}
	b.queue = append(b.queue, r)
}

// giveUp takes back a request that its caller no longer waits for. A request that was sent comes back when its round
// trip is over.
func (b *broker) giveUp(r *request) {
	if slices.Contains(b.flights, r) {
		r.withdrawn = true
		r.conn.abort()
		return
	}
	at := slices.Index(b.queue, r)
	if at < 0 {
		return // it is on its way back
	}
	b.queue = slices.Delete(b.queue, at, at+1)
	if b.dialling > 0 && b.state.failed == nil && time.Since(r.posted) >= patience/4 {
		b.state.failed = b.slow() // the next requests need not wait as long
	}
	b.end(r, withdrawn, nil)
}

// end hands the request back after the current event.
func (b *broker) end(r *request, how ending, err error) {
	if b.asking == r {
		b.asking = nil
	}
	r.ending, r.err = how, err
	b.ended = append(b.ended, r)
}
