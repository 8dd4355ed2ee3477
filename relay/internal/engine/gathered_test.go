package engine

import (
	"strings"
	"testing"
	"time"
)

// Times of keys that are tried again fall together, a little later, and still follow the monotonic clock: when the
// machine's clock is set back by an hour, nothing rests for an hour.
func TestTriesGatherByTheMonotonicClock(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for i := range 100 {
		at := now.Add(time.Duration(i) * time.Millisecond)
		got := gathered(at)
		if rest := got.Sub(at); rest <= 0 || rest > gatherTries || got.UnixNano()%int64(gatherTries) != 0 {
			t.Fatalf("%v is gathered at %v", at, got)
		}
		if !strings.Contains(got.String(), "m=") {
			t.Fatal("the monotonic clock is lost")
		}
	}
}
