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
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !condition() {
		if time.Since(started) > limit {
			t.Fatalf("not within %v: %s", limit, what)
		}
		<-ticker.C
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
