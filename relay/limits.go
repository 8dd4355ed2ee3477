package relay

import "github.com/outbox-relay/outbox-relay/relay/internal/engine"

// shareOf returns a destination's share of the total limits. A destination with limits of its own has those; the others
// have equal parts of what is left.
func shareOf(l engine.Limits, destinations []*Destination, d *Destination) engine.Limits {
	rows := func(d *Destination) int64 { return int64(d.MaxInFlight) }
	bytes := func(d *Destination) int64 { return d.MaxInFlightBytes }
	l.Rows, l.Bytes = int(portion(int64(l.Rows), destinations, d, rows)), portion(l.Bytes, destinations, d, bytes)
	l.Batch = min(l.Batch, l.Rows)
	return l
}

// portion returns a destination's part of one limit. own returns a destination's own limit, or 0 for none.
func portion(total int64, destinations []*Destination, d *Destination, own func(*Destination) int64) int64 {
	if own(d) > 0 {
		return own(d)
	}
	left, sharers := total, int64(0)
	for _, other := range destinations {
		left -= own(other)
		if own(other) == 0 {
			sharers++
		}
	}
	return max(1, left/max(1, sharers))
}
