package kafka

import (
	"context"
	"time"
)

const (
	// patience is how long to wait for an answer while other brokers answer. The rows of the other brokers wait with
	// the call for so long.
	patience = time.Second
	// slowest is a rate in bytes per second that any link carries. Large requests are given more time accordingly.
	slowest = 1 << 20
	// suspectRest is the length of the pause after an answer that did not come, as a multiple of the time spent waiting
	// for it.
	suspectRest = 3
	// maxSilence is the longest pause in sending to a broker that does not answer. Its rows flow that much later when
	// it answers again.
	maxSilence = 10 * time.Second
	// maxThrottle is how long a request waits for the end of a quota's pause. Longer pauses are answered as
	// unavailable, so that the rows of the other brokers do not wait for them.
	maxThrottle = 500 * time.Millisecond
)

// promptly returns how long an answer to so many bytes may take. Eight megabytes, the largest request, have nine
// seconds.
func promptly(size int) time.Duration {
	return patience + time.Duration(size)*time.Second/slowest
}

// allow sets how long to wait for the answer to a request that is sent now. When the answer is late, giveUp is called
// as soon as other brokers have answered. The time doubles with each silence from the second on, up to sixteen times,
// so that a broker that is only slow gets its answer out in the end.
func (b *broker) allow(ctx context.Context, r *request, giveUp func()) {
	r.sent = time.Now()
	r.wait = within(ctx, promptly(r.size)<<min(max(b.silences-1, 0), 4))
	if b.silences > 0 && !b.cluster.allAway() {
		r.limit = r.wait
	}
	r.late = time.AfterFunc(r.wait, func() { b.impatient(ctx, r, giveUp) })
}

// impatient gives up a request whose answer is late if other brokers have answered, or else looks again later. It runs
// in the timer's goroutine. Giving up cancels the round trip, which ends the connection; the batch stays with its
// partition, so no copy is made.
func (b *broker) impatient(ctx context.Context, r *request, giveUp func()) {
	b.cluster.mu.Lock()
	defer b.cluster.mu.Unlock()
	switch {
	case ctx.Err() != nil: // over
	case b.cluster.othersAnswer(b, r.since):
		giveUp()
	default:
		r.late.Reset(patience / 4)
	}
}

// refusal returns the answer for batches that must not be sent to the broker now, or nil. A pause that would outlast
// half of the caller's time is too long as well: the answer would come too late to be told.
func (b *broker) refusal(ctx context.Context, now time.Time) error {
	if pause := b.paused.Sub(now); pause > 0 && pause > within(ctx, maxThrottle) {
		return b.unavailable("throttled", "broker %s asks for a pause of %s: the client's quota is used up",
			b.address, pause.Round(time.Millisecond))
	}
	if !b.rests(now) || b.asking == nil && b.cluster.allAway() { // no other broker's calls are delayed then
		return nil
	}
	return b.quiet()
}

// rests reports whether the broker is a suspect that is being asked, or is left alone for a while. After the first
// silence there is no pause yet, but one request at a time.
func (b *broker) rests(now time.Time) bool {
	return b.silences > 0 && (b.asking != nil || now.Before(b.until))
}

// quiet returns the answer for batches that a suspect does not answer, or that are not sent to it.
func (b *broker) quiet() error {
	return b.unavailable("no answer", "%w", b.mute())
}

// answered notes an answer. An answer in time ends the suspicion. A broker that answers late remains a suspect, without
// pauses: one call at a time waits for it.
func (b *broker) answered(r *request, now time.Time) {
	b.heard = now
	switch {
	case b.silences == 0:
	case now.Sub(r.sent) > promptly(r.size):
		b.until = time.Time{}
	default:
		b.silences, b.until = 0, time.Time{}
	}
}

// unheard reports whether the broker has not answered a request in time, and makes it a suspect. The first time,
// the connection may have been at fault, and the next call asks at once on another one. Other requests that were under
// way at the same time add nothing.
func (b *broker) unheard(r *request, now time.Time) bool {
	took := now.Sub(r.sent)
	if took < max(r.wait, patience/4) { // with less time every broker is silent
		return false
	}
	if b.silences > 0 && b.asking != r {
		return true
	}
	b.silences++
	b.failed = b.mute()
	b.dial() // shows whether the broker is still there
	if b.silences > 1 {
		b.until = now.Add(min(suspectRest*took, maxSilence))
	}
	return true
}

// mute returns the failure of a broker that does not answer.
func (b *broker) mute() error {
	return b.cluster.publisher.attempt(b.address).Failed("no answer", "it does not answer",
		"check that it runs, its log and its disks, and the network", nil)
}

// isAway reports whether the last dial failed or the last request was not answered.
func (b *broker) isAway() bool { return b.backoff.Failed() || b.silences > 0 }
