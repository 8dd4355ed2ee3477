package relay

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// longestSchedule is how long a schedule may take. Almost all take milliseconds. One that takes longer hangs: something
// is repeated in simulated time that stands still.
const longestSchedule = 5 * time.Minute

// schedules runs the given number of random schedules, as many at a time as there are processors, and prints the seed
// of the first that fails. They are the same each time, so that a change fails for what it does and not for what nobody
// had found before: new ones are what make schedules is for. SIMULATION_RUNS changes the number, and SIMULATION_FIRST
// where the seeds begin. With the race detector, which makes runs ten times slower and needs few of them, there are
// fewer.
//
// A seed decides what happens and when, but not which of two goroutines goes first if both could run at the same
// instant. With SIMULATION_SEED, all runs therefore have the same seed: a rare failure occurs again in one of them.
func schedules(t *testing.T, runs uint64, run func(*testing.T, *sim, *rand.Rand)) {
	if raceDetector {
		runs /= 10
	}
	number := func(variable string, otherwise uint64) uint64 {
		text := os.Getenv(variable)
		if text == "" {
			return otherwise
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", variable, err)
		}
		return n
	}
	runs = number("SIMULATION_RUNS", runs)
	first, step := number("SIMULATION_FIRST", 1), uint64(1)
	if os.Getenv("SIMULATION_SEED") != "" {
		first, step = number("SIMULATION_SEED", 0), 0
	}
	var begun atomic.Uint64
	started := time.Now()
	t.Cleanup(func() {
		n := min(begun.Load(), runs)
		t.Logf("%d schedules, %.0f a second", n, float64(n)/time.Since(started).Seconds())
	})
	for range runtime.GOMAXPROCS(0) {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			for n := begun.Add(1); n <= runs; n = begun.Add(1) {
				seed := first + (n-1)*step
				watch := time.AfterFunc(longestSchedule, func() { panic(fmt.Sprintf("SIMULATION_SEED=%d hangs", seed)) })
				ok := t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
					bubble(t, func(t *testing.T, s *sim) { run(t, s, rand.New(rand.NewPCG(seed, 0))) })
				})
				if watch.Stop(); ok {
					continue
				}
				begun.Store(runs)
				t.Errorf("schedule %d of %d failed; repeat it with SIMULATION_SEED=%d", n, runs, seed)
			}
		})
	}
}
