package e2e

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/services"
)

// ownServices is a set of services in addition to the shared one, so that they can be configured and stopped.
type ownServices struct {
	*services.Set
	t testing.TB
}

// newServices makes an empty set. The name must be unique to it.
func newServices(t testing.TB, name string, env ...string) *ownServices {
	t.Helper()
	dir, err := filepath.Abs("../../.services/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := &ownServices{&services.Set{Checkout: "../..", Dir: dir, Offset: services.FreeOffset(t), Settings: env}, t}
	s.run("wipe") // removes what an interrupted test has left
	t.Cleanup(func() { s.run("wipe") })
	return s
}

// run runs a verb of dev/services.sh.
func (s *ownServices) run(verb string, names ...string) {
	s.t.Helper()
	// the test's context has ended when it cleans up
	if _, err := s.Run(context.Background(), verb, names...); err != nil {
		s.t.Fatal(err)
	}
}

// address returns the address of one of the services.
func (s *ownServices) address(variable string) string {
	s.t.Helper()
	address, err := s.Address(s.t.Context(), variable)
	if err != nil {
		s.t.Fatal(err)
	}
	return address
}
