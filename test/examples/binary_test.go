package examples

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// binary builds the relay and returns its path.
func binary(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "outbox-relay")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, ".")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}
