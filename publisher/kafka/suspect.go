package kafka

import (
	"time"

	"github.com/outbox-relay/outbox-relay/publisher/internal/network"
)

const (
	// patience is how long to wait for an answer while other brokers answer.
	patience = time.Second
	// slowest is a rate in bytes per second that any link carries. Large requests are given more time accordingly.
	slowest = 1 << 20
	// suspectRest is the length of the pause after an answer that did not come, as a multiple of the time spent waiting
	// for it.
	suspectRest = 3
	// maxSilence is the longest pause in sending to a broker that does not answer.
	maxSilence = 10 * time.Second
)

// promptly returns how long an answer to so many bytes may take.
func promptly(size int) time.Duration {
	return patience + time.Duration(size)*time.Second/slowest
}

// bound sets how long to wait for the answer to a request that is about to be sent.
func (b *broker) bound(r *request, now time.Time) {
	if r.group == nil {
		r.limit = askTimeout
		return
	}
	r.suspected = b.state.silences > 0
	r.wait = r.within(promptly(r.size)<<min(max(b.state.silences-1, 0), 4), now)
	switch {
	case r.patient:
		r.wait = r.limit
	case r.suspected && !b.publisher.cluster.unreachable():
		r.limit = r.wait
	}
	r.late = now.Add(r.wait)
}

// refusal returns the answer for batches that must not be sent to the broker now, or nil. It decides from the given
// standing.
func (b *broker) refusal(s *standing, deadline time.Time) error {
	now := time.Now()
	if err := b.tooLong(s, deadline, now); err != nil {
		return err
	}
	if s.silences == 0 || !s.asked && !now.Before(s.until) {
		return nil
	}
	alone := b.publisher.cluster.unreachable() // no other broker's calls are delayed then
	if !s.asked && alone {
		return nil
	}
	return b.quiet(alone)
}

// quiet returns the answer for batches that are not sent to a suspect. alone means that no other broker is there.
func (b *broker) quiet(alone bool) error {
	return b.unavailable(alone, "no answer",
		"kafka broker %s takes requests and does not answer them: look at its log and its disks", b.address)
}

// answered notes an answer. An answer in time ends the suspicion. A broker that answers late remains a suspect, without
// pauses: one call at a time waits for it.
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

// unheard reports whether a request has ended because no answer came, and makes the broker a suspect. The first time,
// the connection may have been at fault, and the next call asks at once on another one. Other requests that were under
// way at the same time add nothing.
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

// unanswered handles a question without an answer. The question is sent again if its connection may have died while it
// was idle.
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

// mute returns the failure of a broker that can be reached and does not answer.
func (b *broker) mute() error {
	return b.publisher.failed(b.address, "no answer", "it takes requests and does not answer them",
		"look at its log and its disks")
}

// isAway reports whether the last dial failed or the last request was not answered.
func (s *standing) isAway() bool { return s.backoff.Failed() || s.silences > 0 }

// answers reports whether brokers other than the given one have answered requests of any call since the given time.
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
