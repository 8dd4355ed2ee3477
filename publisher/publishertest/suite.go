// Package publishertest states what a publisher must do, as a suite of tests that every one of them
// passes, with a network that can be broken and a broker in memory. It is imported by tests only.
package publishertest

import "testing"

// Run runs every test of the suite as a parallel subtest.
func Run(t *testing.T, h Harness) {
	tests := map[string]func(*testing.T, Harness){}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, h)
		})
	}
}
