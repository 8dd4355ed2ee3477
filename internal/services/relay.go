package services

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Relay builds the relay of a checkout as it is shipped, but with its symbols, and returns the absolute path of the
// binary. Go links it only if it has changed since the last time, so that each test may ask for it.
func Relay(ctx context.Context, checkout string) (path string, err error) {
	if path, err = filepath.Abs(filepath.Join(checkout, "bin", "outbox-relay")); err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-tags", "grpcnotrace", "-o", path,
		".")
	build.Dir, build.Env = checkout, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the relay: %w\n%s", err, out)
	}
	return path, nil
}
