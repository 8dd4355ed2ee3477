package connect

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var errAway = &Failure{Short: "connection refused"}

// tried tries addresses that are named by how long they take to answer, in turn with a second for each. The address 0
// fails at once. It returns the answer, how long that took, and how many addresses were tried.
func tried(ctx context.Context, addresses ...time.Duration) (answer, took time.Duration, tries int, err error) {
	begun := time.Now()
	answer, err = InTurn(ctx, time.Second, addresses,
		func(ctx context.Context, after time.Duration) (time.Duration, error) {
			if tries++; after == 0 {
				return 0, errAway
			}
			select {
			case <-time.After(after):
				return after, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		})
	return answer, time.Since(begun), tries, err
}

// The first address that answers wins. One that fails makes room for the next at once, and one that does not answer
// after a second. The last one is waited for.
func TestInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const never, ready, slow = time.Hour, time.Millisecond, 5 * time.Second
		answer, took, tries, err := tried(t.Context(), never, 0, never, ready, never)
		if err != nil || answer != ready || took != 2*time.Second+ready || tries != 4 {
			t.Errorf("%v after %v and %d tries: %v", answer, took, tries, err)
		}
		answer, took, _, err = tried(t.Context(), never, slow)
		if err != nil || answer != slow || took != time.Second+slow {
			t.Errorf("the last one: %v after %v: %v", answer, took, err)
		}
		if _, _, tries, err := tried(t.Context(), 0, 0); !errors.Is(err, errAway) || tries != 2 {
			t.Errorf("without an answer: %v after %d tries", err, tries)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		if _, took, tries, err := tried(ctx, never, never, never); !errors.Is(err, context.DeadlineExceeded) ||
			took != 1500*time.Millisecond || tries != 2 {
			t.Errorf("at the end of the context: %v after %v and %d tries", err, took, tries)
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
