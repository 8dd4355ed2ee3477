package measure

import (
	"math"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/operate"
)

// A History is what became of a destination's rows in the last hour, in intervals of half a minute. Its size does not
// depend on the number of rows: some 80 KB for each destination. It is lost with the process.
type History struct {
	mu        sync.Mutex              // guards everything but began
	began     time.Time               // when the relay was made; intervals before it are not shown
	relayed   int64                   // rows since began
	intervals [historyLength]interval // a ring, by number; an old interval is overwritten when its place is needed
}

const (
	historyEvery  = 30 * time.Second
	historyLength = 121 // one hour, and the interval that has just begun
)

// interval is one part of a history. Its latencies are counted in buckets, each from a microsecond times a power of the
// fourth root of two to the next, so that a bucket's width is 19 % of the latencies in it, for a millisecond as for a
// day.
type interval struct {
	number          int64 // intervals since 1970
	relayed, failed int64
	latencies       [latencyBuckets]uint32
}

// latencyBuckets is the number of buckets. They reach up to twelve days.
const latencyBuckets = 4 * 40

// now returns the present interval, after clearing what was in its place an hour ago. The caller holds mu.
func (h *History) now(at time.Time) *interval {
	number := at.UnixNano() / int64(historyEvery)
	i := &h.intervals[number%historyLength]
	if i.number != number {
		*i = interval{number: number}
	}
	return i
}

// Unknown is the latency of a row whose time is not known.
const Unknown time.Duration = math.MinInt64

// add counts rows that were relayed, by their latencies.
func (h *History) add(latencies []time.Duration, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := h.now(at)
	for _, latency := range latencies {
		i.relayed++
		h.relayed++
		if latency != Unknown {
			i.latencies[latencyBucket(latency)]++
		}
	}
}

// fail counts a row that failed.
func (h *History) fail(at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now(at).failed++
}

// Read returns the number of rows relayed since the history began, and the intervals of the last hour since then,
// oldest first. Their latencies are accurate to one fifth.
func (h *History) Read(at time.Time) (relayed int64, all []operate.Interval) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all = []operate.Interval{}
	last := at.UnixNano() / int64(historyEvery)
	for number := last - historyLength + 1; number <= last; number++ {
		from := time.Unix(0, number*int64(historyEvery)).UTC()
		one := operate.Interval{From: from, Seconds: historyEvery.Seconds()}
		if until := from.Add(historyEvery); !until.After(h.began) {
			continue
		} else if until.After(at) {
			one.Seconds = at.Sub(from).Seconds()
		}
		if i := &h.intervals[number%historyLength]; i.number == number {
			one.Relayed, one.Failed = i.relayed, i.failed
			one.LatencyP50, one.LatencyP99 = i.quantile(50), i.quantile(99)
		}
		all = append(all, one)
	}
	return h.relayed, all
}

// latencyBucket returns the bucket of a latency.
func latencyBucket(d time.Duration) int {
	us := float64(max(d, time.Microsecond)) / float64(time.Microsecond)
	return min(int(4*math.Log2(us)), latencyBuckets-1)
}

// latencyFrom returns the latency at which a bucket begins.
func latencyFrom(bucket int) time.Duration {
	return time.Duration(math.Exp2(float64(bucket)/4) * float64(time.Microsecond))
}

// quantile returns the latency in seconds that percent of the rows did not exceed, as the middle of its bucket. It is
// nil if there was no row whose time is known.
func (i *interval) quantile(percent uint64) *float64 {
	var all uint64
	for _, n := range i.latencies {
		all += uint64(n)
	}
	rank := (all*percent + 99) / 100
	for bucket, n := range i.latencies {
		if n > 0 && uint64(n) >= rank {
			return new((latencyFrom(bucket) + latencyFrom(bucket+1)).Seconds() / 2)
		}
		rank -= min(rank, uint64(n))
	}
	return nil
}
