package retry

import (
	"testing"
	"time"
)

func TestBackoff(t *testing.T) {
	const least, most = 500 * time.Millisecond, time.Minute
	var sum [12]time.Duration
	const rows = 2000
	for i := range rows {
		id := string(rune('a'+i%26)) + time.Duration(i).String()
		for attempt := range int64(12) {
			d := Backoff(least, most, id, attempt)
			if limit := Doubled(least, most, attempt-2); d < 0 || d > limit {
				t.Fatalf("backoff before try %d is %v, limit %v", attempt, d, limit)
			}
			if again := Backoff(least, most, id, attempt); again != d {
				t.Fatalf("two replicas find %v and %v", d, again)
			}
			sum[attempt] += d
		}
	}
	// Full jitter: the mean is half of the bound, which grows by a factor of two.
	for attempt, bound := range map[int]time.Duration{0: least, 1: least, 2: least, 3: 2 * least, 5: 8 * least, 11: most} {
		if mean := sum[attempt] / rows; mean < bound*9/20 || mean > bound*11/20 {
			t.Errorf("mean before try %d is %v, want half of %v", attempt, mean, bound)
		}
	}
}
