package relay

// latest remembers for recent keys the largest ordinal that was accepted, by the key's hash. It forgets the
// older half of what it knows when it is full.
type latest struct {
	young, old map[uint64]int64
}

const latestKeys = 1 << 15

func (l *latest) note(key uint64, ordinal int64) {
	if l.young == nil || len(l.young) >= latestKeys {
		l.young, l.old = make(map[uint64]int64), l.young
	}
	if known, ok := l.young[key]; !ok || known < ordinal {
		l.young[key] = ordinal
	}
}

// after reports whether a younger row of the key is known to have been accepted.
func (l *latest) after(key uint64, ordinal int64) bool {
	return l.young[key] > ordinal || l.old[key] > ordinal
}
