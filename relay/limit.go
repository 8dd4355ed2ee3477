package relay

import "github.com/outbox-relay/outbox-relay/relay/internal/dispatch"

// shares divides the total limits among the destinations. A destination with limits of its own has those; the others
// have equal parts of what is left. Nowhere, whose rows are never sent, gets its limits in addition to the total.
func shares(l dispatch.Limits, destinations []*Destination) map[*Destination]dispatch.Limits {
	rows, bytes := parts{left: int64(l.Rows)}, parts{left: l.Bytes}
	for _, d := range destinations {
		if d.Name != nowhereName {
			rows.add(int64(d.MaxInFlight))
			bytes.add(d.MaxInFlightBytes)
		}
	}
	all := map[*Destination]dispatch.Limits{}
	for _, d := range destinations {
		share := l
		share.Rows, share.Bytes = int(rows.of(int64(d.MaxInFlight))), bytes.of(d.MaxInFlightBytes)
		if d.Name == nowhereName {
			share.Rows, share.Bytes = min(share.Rows, nowhereRows), min(share.Bytes, nowhereBytes)
		}
		share.Batch = min(l.Batch, share.Rows)
		all[d] = share
	}
	return all
}

// parts divides one limit.
type parts struct {
	left    int64 // what is left of the limit
	sharers int64 // number of destinations that share what is left
}

// add records a destination's own part; 0 stands for a share of what is left.
func (p *parts) add(own int64) {
	p.left -= own
	if own == 0 {
		p.sharers++
	}
}

// of returns a destination's part.
func (p *parts) of(own int64) int64 {
	if own > 0 {
		return own
	}
	return max(1, p.left/max(1, p.sharers))
}
