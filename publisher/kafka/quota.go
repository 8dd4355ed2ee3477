package kafka

import "time"

const (
	// maxThrottle is how long a request waits for the end of a quota's pause; longer pauses are
	// answered as unavailable.
	maxThrottle = 500 * time.Millisecond
	// quotaQuiet is how long no such pause is asked for until the quota counts as kept again.
	quotaQuiet = time.Minute
)

// throttle notes how long the broker wants to be left alone (KIP-219: it has answered and reads nothing
// more from the connection until then; what has to be asked meanwhile takes another one). A quota is kept
// for each broker. While it is used up, pauses come and go; that is told as one state.
func (b *broker) throttle(c *conn, pause time.Duration, now time.Time) {
	if pause > 0 {
		b.state.paused = now.Add(pause)
		c.muted = b.state.paused
	}
	switch told := !b.overQuota.IsZero(); {
	case pause > maxThrottle:
		b.overQuota = now
		if !told {
			b.publisher.log.Warn("kafka broker throttles this client: its quota is used up", "broker", b.address, "pause",
				pause.Round(time.Millisecond))
		}
	case told && now.Sub(b.overQuota) > quotaQuiet:
		b.overQuota = time.Time{}
		b.publisher.log.Info("kafka broker does not throttle this client any more", "broker", b.address)
	}
}

// tooLong is the answer for batches while the broker asks for a pause that is too long to wait for its end, or nil.
func (b *broker) tooLong(s *standing, deadline, now time.Time) error {
	limit := maxThrottle
	if !deadline.IsZero() {
		limit = min(limit, deadline.Sub(now)/2)
	}
	if pause := s.paused.Sub(now); pause > 0 && pause > limit {
		return b.unavailable(false, "throttled", "broker %s asks for a pause of %s: the client's quota is used up", b.address,
			pause.Round(time.Millisecond))
	}
	return nil
}
