// Package publishertest defines what a publisher must do, as a suite of tests that every publisher passes. It also
// contains a network that can be broken, and a broker in memory. It is imported only by tests.
package publishertest

import (
	"slices"
	"testing"
)

// Networkless is implemented by a Harness whose publisher uses no network. The tests that break the network do not
// exist for it.
type Networkless interface{ Networkless() }

// A trial is one test of the suite.
type trial struct {
	name string
	run  func(t *testing.T, h Harness)
}

// Run runs the tests of the suite as parallel subtests. It omits tests that do not apply to the broker (no unknown
// topics, no limit, no network).
func Run(t *testing.T, h Harness) {
	t.Helper()
	trials := slices.Concat(orderTrials, prefixTrials, contentTrials, closeTrials, cancelTrials)
	if h.Unknown(t) != "" {
		trials = append(trials, topologyTrials...)
	}
	if len(h.Illegal()) > 0 {
		trials = append(trials, illegalTrials...)
	}
	if h.TooLarge() > 0 {
		trials = append(trials, sizeTrials...)
	}
	if _, without := h.(Networkless); !without {
		trials = slices.Concat(trials, outageTrials, silenceTrials)
	}
	for _, trial := range trials {
		t.Run(trial.name, func(t *testing.T) {
			t.Parallel()
			trial.run(t, h)
		})
	}
}
