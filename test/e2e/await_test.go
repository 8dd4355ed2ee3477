package e2e

import (
	"os"
	"testing"
	"time"
)

// patience is how long a test waits for an expected event before it fails. Only a failure takes this long.
const patience = 2 * time.Minute

// await polls until a condition holds and returns how long that took.
func await(t testing.TB, what string, condition func() bool) time.Duration {
	t.Helper()
	return awaitWithin(t, patience, what, condition)
}

func awaitWithin(t testing.TB, limit time.Duration, what string, condition func() bool) time.Duration {
	t.Helper()
	started := time.Now()
	const often, seldom = 5 * time.Millisecond, 100 * time.Millisecond
	for !condition() {
		waited := time.Since(started)
		if waited > limit {
			t.Fatalf("not within %v: %s", limit, what)
		}
		// What takes long is asked for less often: a condition may cost the relay and the database more than what it is
		// about.
		<-time.After(min(max(often, waited/20), seldom))
	}
	return time.Since(started)
}

// endpoint returns the address of a service. If the variable is missing, the test fails.
func endpoint(t testing.TB, variable string) string {
	t.Helper()
	url := os.Getenv(variable)
	if url == "" {
		t.Fatalf("%s is not set: run `make e2e`, or eval \"$(dev/services.sh env)\" first", variable)
	}
	return url
}
