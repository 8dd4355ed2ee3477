package kafka

import "time"

const (
	// maxThrottle is how long a request waits for the end of a quota's pause. Longer pauses are answered as
	// unavailable.
	maxThrottle = 500 * time.Millisecond
	// quotaQuiet is how long no such pause must be requested before the quota counts as kept again.
	quotaQuiet = time.Minute
)

// throttle notes how long the broker asks the client to pause (KIP-219). The broker has answered, but reads nothing
// more from the connection until the pause ends; questions in the meantime use another connection. Each broker has a
// quota of its own. While the quota is used up, pauses come and go, and the log reports them as one state.
func (b *broker) throttle(c *conn, pause time.Duration, now time.Time) {
	if pause > 0 {
		b.state.paused = now.Add(pause)
		c.muted = b.state.paused
	}
	switch logged := !b.overQuota.IsZero(); {
	case pause > maxThrottle:
		b.overQuota = now
		if !logged {
			b.publisher.log.Warn("kafka broker throttles this client: its quota is used up", "broker", b.address,
				"pause",
				pause.Round(time.Millisecond))
		}
	case logged && now.Sub(b.overQuota) > quotaQuiet:
		b.overQuota = time.Time{}
		b.publisher.log.Info("kafka broker does not throttle this client any more", "broker", b.address)
	}
}

// tooLong returns the answer for batches while the broker requests a pause that is too long to wait for. It returns nil
// if there is no such pause.
func (b *broker) tooLong(s *standing, deadline, now time.Time) error {
	limit := maxThrottle
	if !deadline.IsZero() {
		limit = min(limit, deadline.Sub(now)/2)
	}
	if pause := s.paused.Sub(now); pause > 0 && pause > limit {
		return b.unavailable(false, "throttled", "broker %s asks for a pause of %s: the client's quota is used up",
			b.address,
			pause.Round(time.Millisecond))
	}
	return nil
}
