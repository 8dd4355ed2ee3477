package relay

import "github.com/outbox-relay/outbox-relay/relay/internal/engine"

// shareOf returns a destination's share of the total limits. A destination with limits of its own has those; the others
// have equal parts of what is left.
func shareOf(l engine.Limits, destinations []*Destination, d *Destination) engine.Limits {
	l.Rows = portion(l.Rows, destinations, d, func(d *Destination) int { return d.MaxInFlight })
	l.Bytes = portion(l.Bytes, destinations, d, func(d *Destination) int64 { return d.MaxInFlightBytes })
	return l
}

// portion returns a destination's part of one limit. own returns a destination's own limit, or 0 for none.
func portion[N int | int64](left N, destinations []*Destination, d *Destination, own func(*Destination) N) N {
	if own(d) > 0 {
		return own(d)
	}
	sharers := N(0)
	for _, other := range destinations {
		if left -= own(other); own(other) == 0 {
			sharers++
		}
	}
	return max(1, left/max(1, sharers))
}
