package measure

import (
	"slices"
	"testing"
	"time"
)

// Latencies from microseconds to days are counted with a resolution of one quarter.
func TestLatencyBuckets(t *testing.T) {
	t.Parallel()
	last := -1
	for d := time.Microsecond; d < 10*24*time.Hour; d = d*11/10 + time.Microsecond {
		bucket := latencyBucket(d)
		if bucket < last || bucket >= latencyBuckets-1 {
			t.Fatalf("%v is in bucket %d after %d", d, bucket, last)
		}
		last = bucket
		if from, to := latencyFrom(bucket), latencyFrom(bucket+1); d < from-time.Nanosecond || d > to ||
			to-from > from/4+time.Microsecond {
			t.Fatalf("%v is in the bucket from %v to %v", d, from, to)
		}
	}
	if latencyBucket(-time.Second) != 0 || latencyBucket(1000*time.Hour*24) != latencyBuckets-1 {
		t.Error("what is beyond the buckets is in none of the ends")
	}
}

// The history holds the last hour, with intervals in which nothing happened, and nothing from before the start.
func TestHistory(t *testing.T) {
	t.Parallel()
	start := time.Unix(0, 1_000_000*int64(historyEvery)).Add(5 * time.Second)
	rows := func(n int, latency time.Duration) []time.Duration {
		return slices.Repeat([]time.Duration{latency}, n)
	}
	h := &History{began: start}
	h.add(rows(98, 10*time.Millisecond), start)
	h.add(rows(2, time.Second), start)
	h.fail(start)
	later := start.Add(61 * time.Second)
	h.add(rows(1, Unknown), later) // without a known due time
	relayed, all := h.Read(later)
	if relayed != 101 || len(all) != 3 {
		t.Fatalf("%d rows, %d intervals", relayed, len(all))
	}
	first, second, third := all[0], all[1], all[2]
	near := func(seconds *float64, want float64) bool {
		return seconds != nil && *seconds > want*4/5 && *seconds < want*6/5
	}
	if first.Relayed != 100 || first.Failed != 1 || !near(first.LatencyP50, 0.01) || !near(first.LatencyP99, 1) ||
		first.Seconds != historyEvery.Seconds() {
		t.Errorf("%+v", first)
	}
	if second.Relayed != 0 || second.LatencyP50 != nil || third.Relayed != 1 || third.LatencyP99 != nil ||
		third.Seconds != 6 {
		t.Errorf("%+v, %+v", second, third)
	}
	for hours := range 3 { // the ring wraps around
		at := later.Add(time.Duration(hours+1) * time.Hour)
		h.add(rows(7, time.Millisecond), at)
		relayed, all = h.Read(at)
		sum := int64(0)
		for i, one := range all {
			sum += one.Relayed
			if i > 0 && !one.From.Equal(all[i-1].From.Add(historyEvery)) {
				t.Fatalf("%v follows %v", one.From, all[i-1].From)
			}
		}
		if want := int64(7 * min(hours+1, 2)); len(all) != historyLength || all[len(all)-1].Relayed != 7 ||
			sum > want+1 || relayed != 101+7*int64(hours+1) {
			t.Errorf("after %d hours: %d intervals, %d rows in them", hours+1, len(all), sum)
		}
	}
}
