package examples

import (
	"path/filepath"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/services"
)

// binary builds the relay and returns its path.
func binary(t *testing.T) string {
	t.Helper()
	path, err := services.Relay(t.Context(), filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return path
}
