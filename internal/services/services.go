// Package services starts separate servers with dev/services.sh, for tests and benchmarks that change their settings,
// stop them or kill them.
package services

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A Set is a set of servers in addition to those that the TEST_ variables name.
type Set struct {
	Checkout string   // directory of the module that contains dev/services.sh
	Dir      string   // existing directory for data, logs and ports
	Offset   int      // offset of the ports; 0 lets the script choose free ones
	Settings []string // NAME=value, as dev/services.sh explains them
}

// Run runs a verb of dev/services.sh for all services or the named ones, and returns the script's output. It blocks
// until the script ends; for up that means that the services are ready.
func (s *Set) Run(ctx context.Context, verb string, services ...string) (string, error) {
	script, err := filepath.Abs(filepath.Join(s.Checkout, "dev", "services.sh"))
	if err != nil {
		return "", fmt.Errorf("find dev/services.sh: %w", err)
	}
	cmd := exec.CommandContext(ctx, script, append([]string{verb}, services...)...)
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "TEST_") && !strings.HasPrefix(pair, "SERVICES_DIR=") &&
			!strings.HasPrefix(pair, "SERVICES_PORT_OFFSET=") {
			cmd.Env = append(cmd.Env, pair)
		}
	}
	cmd.Env = append(cmd.Env, "SERVICES_DIR="+s.Dir)
	if s.Offset != 0 {
		cmd.Env = append(cmd.Env, fmt.Sprint("SERVICES_PORT_OFFSET=", s.Offset))
	}
	cmd.Env = append(cmd.Env, s.Settings...)
	var out, problems strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("dev/services.sh %s %s: %w: %s", verb, strings.Join(services, " "), err,
			strings.TrimSpace(problems.String()))
	}
	return out.String(), nil
}

// Address returns a server's address, by its TEST_ variable, even before the server runs.
func (s *Set) Address(ctx context.Context, variable string) (string, error) {
	lines, err := s.Run(ctx, "env")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(lines) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), "export "+variable+"="); found {
			return strings.Trim(value, `'"`), nil
		}
	}
	return "", fmt.Errorf("dev/services.sh env does not name %s", variable)
}
