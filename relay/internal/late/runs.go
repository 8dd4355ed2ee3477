package late

import (
	"math"
	"slices"
	"sort"
)

// runs are the ordinals that tail scans have returned, without the gaps between them. Where no two rows have the same ordinal,
// nothing can be committed late inside a run, so that a recent read may begin at the first gap after the low watermark. Beside 10,000
// keys that waited for a missing topic, 5.1 tuples were read for each relayed row instead of 10.9; without them it is 3.3 (test/bench,
// trouble).
type runs []run // in order, with a gap between each two

type run struct{ first, last int64 }

// mostRuns is the maximum number of runs. With more, the first one is forgotten: there are so many gaps that little is to be gained.
const mostRuns = 64

func (r *runs) add(ordinal int64) {
	if ordinal == math.MinInt64 || ordinal == math.MaxInt64 {
		return // has no neighbour
	}
	all := *r
	i := sort.Search(len(all), func(i int) bool { return all[i].last >= ordinal-1 })
	switch {
	case i == len(all) || ordinal < all[i].first-1:
		if len(all) == mostRuns {
			if i == 0 {
				return
			}
			all, i = slices.Delete(all, 0, 1), i-1
		}
		*r = slices.Insert(all, i, run{ordinal, ordinal})
	case ordinal < all[i].first:
		all[i].first = ordinal
	case ordinal > all[i].last:
		all[i].last = ordinal
		if i+1 < len(all) && all[i+1].first == ordinal+1 {
			all[i].last = all[i+1].last
			*r = slices.Delete(all, i+1, i+2)
		}
	}
}

// gap returns the first ordinal that was not returned, from low on, if everything up to low counts as returned. It forgets the
// runs before low.
func (r *runs) gap(low int64) int64 {
	*r = slices.DeleteFunc(*r, func(known run) bool { return known.last <= low })
	if all := *r; len(all) > 0 && all[0].first <= low+1 {
		return all[0].last + 1
	}
	return low
}
