package relay

import "math"

// leftOut is what a walk leaves to the next one, which begins before all of it: rows that were written when the walk had begun. Most are
// new. But a row that somebody has changed meanwhile looks new as well, the last owner with a late refusal, say: what is younger in
// its key must not go before it.
type leftOut struct {
	heads  map[uint64]int64 // the lowest ordinal, by the key's hash
	lowest int64            // of all
}

// mostLeftOut is how many keys are remembered. With more, every key counts as one of them.
const mostLeftOut = 20_000

func newLeftOut() *leftOut { return &leftOut{heads: map[uint64]int64{}, lowest: math.MaxInt64} }

func (l *leftOut) reset() {
	clear(l.heads)
	l.lowest = math.MaxInt64
}

func (l *leftOut) add(r *row) {
	hash, ordinal := r.key.hash(), r.Position.Ordinal
	l.lowest = min(l.lowest, ordinal)
	if head, has := l.heads[hash]; has || len(l.heads) < mostLeftOut {
		if !has || ordinal < head {
			l.heads[hash] = ordinal
		}
	}
}

// head returns the lowest ordinal of the key that was left out, if there is one.
func (l *leftOut) head(k key) (ordinal int64, ok bool) {
	if len(l.heads) == mostLeftOut {
		return l.lowest, true
	}
	ordinal, ok = l.heads[k.hash()]
	return ordinal, ok
}
