package kafka

import (
	"time"

	"github.com/outbox-relay/outbox-relay/publisher/internal/network"
)

const (
	// patience is how long an answer is waited for while the answers of other brokers are there.
	patience = time.Second
	// slowest is how many bytes a second any link carries: large requests are given more time.
	slowest = 1 << 20
	// suspectRest is for how many times as long as it was waited for in vain a broker is sent nothing.
	suspectRest = 3
	// maxSilence is the longest time for which a broker that does not answer is sent nothing.
	maxSilence = 10 * time.Second
)

// promptly is how long an answer to so many bytes takes at most.
func promptly(size int) time.Duration {
	return patience + time.Duration(size)*time.Second/slowest
}

// bound sets for how long the answer to a request, which is about to be sent, is waited for.
func (b *broker) bound(r *request, now time.Time) {
	if r.group == nil {
		r.limit = askTimeout
		return
	}
	r.suspected = b.state.silences > 0
	r.wait = r.within(promptly(r.size)<<min(max(b.state.silences-1, 0), 4), now)
	if r.suspected && !b.publisher.cluster.unreachable() {
		r.limit = r.wait
	}
	if r.patient {
		r.wait = r.limit
	}
	r.late = now.Add(r.wait)
}

// refusal is the answer for batches that the broker is not sent now, or nil, going by a standing of its.
func (b *broker) refusal(s *standing, deadline time.Time) error {
	now := time.Now()
	if err := b.tooLong(s, deadline, now); err != nil {
		return err
	}
	if s.silences == 0 || !s.asked && !now.Before(s.until) {
		return nil
	}
	alone := b.publisher.cluster.unreachable() // then nobody else is delayed
	if !s.asked && alone {
		return nil
	}
	return b.quiet(alone)
}

// quiet is the answer for batches that are not sent to a suspect. Alone is that no other broker is there.
func (b *broker) quiet(alone bool) error {
	return b.unavailable(alone, "no answer",
		"kafka broker %s takes requests and does not answer them: look at its log and its disks", b.address)
}

// answered notes an answer, which ends the suspicion if it has come in time. A broker that answers late goes on as a suspect,
// without pauses: one call at a time waits for it.
func (b *broker) answered(r *request, now time.Time) {
	b.heard.Store(now.UnixNano())
	switch {
	case b.state.silences == 0:
	case now.Sub(r.sent) > promptly(r.size):
		b.state.until = time.Time{}
	default:
		if b.silent {
			b.publisher.log.Info("kafka broker answers again", "broker", b.address)
		}
		b.state.silences, b.state.until, b.silent = 0, time.Time{}, false
	}
}

// unheard reports whether a request has ended for want of an answer, and makes the broker a suspect. The first time that may
// have been the connection's fault, and the next call asks at once, on another one. Requests that were under way beside it
// say no more.
func (b *broker) unheard(r *request, now time.Time) bool {
	took := now.Sub(r.sent)
	if !network.TimedOut(r.err) || took < max(r.wait, patience/4) { // with less time every broker is silent
		return false
	}
	if b.state.silences > 0 && r.sent.Before(b.noted) {
		return true
	}
	alone := b.publisher.cluster.unreachable()
	b.state.silences, b.noted = b.state.silences+1, now
	b.state.failed, b.verify = b.mute(), true
	if b.state.silences == 1 {
		return true
	}
	b.state.until = now.Add(min(suspectRest*took, maxSilence))
	if !b.silent && !alone {
		b.silent = true
		b.publisher.log.Warn("kafka broker does not answer: its partitions wait", "broker", b.address)
	}
	return true
}

// unanswered takes a question without an answer. It goes out again if its connection may have died while it was idle.
func (b *broker) unanswered(r *request, now time.Time) {
	switch timedOut := network.TimedOut(r.err); {
	case b.leaving:
	case timedOut && now.Sub(r.sent) >= askTimeout:
		r.err, b.verify = b.mute(), true
		b.unreachable(r.err)
	case r.conn.reused && !timedOut:
		r.sent, r.conn = time.Time{}, nil
		b.queue = append(b.queue, r)
		return
	case b.publisher.config.SASL == nil && network.Ended(r.err):
		r.err = b.publisher.explain(b.address, stepRequest, r.err)
	}
	b.end(r, lost, r.err)
}

// mute says that the broker can be reached and says nothing.
func (b *broker) mute() error {
	return &linkError{short: "no answer", address: b.address, found: "it takes requests and does not answer them",
		remedy: "look at its log and its disks"}
}

// isAway reports whether the last dial failed, or the last request was not answered.
func (s *standing) isAway() bool { return s.failures > 0 || s.silences > 0 }

// answers reports whether brokers other than this one have answered requests, of whatever call, since.
func (c *cluster) answers(except *broker, since time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.nodes {
		if b != except && b.heard.Load() > since.UnixNano() {
			return true
		}
	}
	return false
}
