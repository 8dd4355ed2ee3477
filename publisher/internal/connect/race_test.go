package connect

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// behaviour describes an address of a race: when it begins to accept connections, and how long each try before that
// waits.
type behaviour struct {
	opens  time.Duration // time after the beginning; 0 means never
	silent time.Duration // time after which an earlier try ends
	err    error
}

var errAway = &Failure{Short: "connection refused"}

// run runs a race between addresses. It returns the winner, or -1 for none, the time that the race took, and the times
// at which each address was tried.
func run(t *testing.T, ctx context.Context, addresses ...behaviour) (
	winner int, took time.Duration, tries [][]time.Duration,
) {
	t.Helper()
	begun := time.Now()
	var mu sync.Mutex
	tries = make([][]time.Duration, len(addresses))
	race := Race[int]{
		Drop: func(int) {}, Ended: func(int, error) {},
		Open: func(ctx context.Context, i int) (int, error) {
			mu.Lock()
			tries[i] = append(tries[i], time.Since(begun))
			mu.Unlock()
			a := addresses[i]
			if a.opens > 0 && time.Since(begun) >= a.opens {
				return i, nil
			}
			wait := time.NewTimer(a.silent)
			defer wait.Stop()
			select {
			case <-wait.C:
				return 0, a.err
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		},
	}
	for i := range addresses {
		race.Turns = append(race.Turns, i)
	}
	winner, won := race.Run(ctx)
	took = time.Since(begun)
	if !won {
		winner = -1
	}
	return winner, took, tries
}

// An address that failed is tried again while another one does not answer.
func TestRaceTriesAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		winner, took, tries := run(t, t.Context(), behaviour{opens: time.Second, err: errAway},
			behaviour{silent: 5 * time.Second, err: errAway})
		if winner != 0 || took > time.Second+LongestPause || len(tries[1]) != 1 {
			t.Errorf("winner %d after %v, tries %v", winner, took, tries)
		}
	})
}

// A server that fails is asked twice a second at most while another one does not answer.
func TestRaceSparesWhoFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		winner, took, tries := run(t, t.Context(), behaviour{err: errAway},
			behaviour{silent: 5 * time.Second, err: errAway})
		if winner != -1 || took != 5*time.Second || len(tries[0]) > 11 || len(tries[0]) < 9 {
			t.Errorf("winner %d after %v, tries %v", winner, took, tries)
		}
	})
}

// The race ends when each address has had its turn, even if repeated tries are under way.
func TestRaceEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		silent := behaviour{silent: 5 * time.Second, err: errAway}
		if winner, took, tries := run(t, t.Context(), silent, silent, silent); winner != -1 ||
			took != 5*time.Second+2*Stagger {
			t.Errorf("winner %d after %v, tries %v", winner, took, tries)
		}
	})
}

// The first address that answers wins, and one that has failed makes room for the next at once.
func TestRaceOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		away, ready := behaviour{err: errAway}, behaviour{opens: time.Nanosecond}
		silent := behaviour{silent: time.Minute, err: errAway}
		winner, took, tries := run(t, t.Context(), silent, away, silent, ready)
		if want := [][]time.Duration{{0}, {Stagger}, {Stagger}, {2 * Stagger}}; winner != 3 || took != 2*Stagger ||
			!slices.EqualFunc(tries, want, slices.Equal) {
			t.Errorf("winner %d after %v, tries %v", winner, took, tries)
		}
	})
}

// The end of the context ends a race.
func TestRaceCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("enough"))
		defer cancel()
		if winner, took, _ := run(t, ctx, behaviour{silent: time.Hour, err: errAway}); winner != -1 ||
			took != time.Second {
			t.Errorf("winner %d after %v", winner, took)
		}
	})
}

// Pauses double, up to half a second.
func TestBackoff(t *testing.T) {
	t.Parallel()
	var b Backoff
	for i, longest := range []time.Duration{50, 100, 200, 400, 500, 500} {
		longest *= time.Millisecond
		if pause := b.Next(); pause < longest/2 || pause >= longest || !b.Failed() {
			t.Errorf("pause %d is %v, want about %v", i, pause, longest)
		}
	}
	if b.Reset(); b.Failed() {
		t.Error("still failed")
	}
}
