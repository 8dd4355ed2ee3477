package services

import (
	"os"
	"testing"
)

// Endpoint returns the address of a real service from the environment variable with the given name (TEST_KAFKA_URL and
// so on). If the variable is not set, it fails the test and says what to do.
func Endpoint(t testing.TB, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("%s is not set: run `make test`, or start the services and `eval \"$(dev/services.sh env)\"`", name)
	}
	return value
}
