package cli

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/config"
)

// If a pause file is neither true nor false, the state does not change and the problem is logged once.
func TestPauseFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pause")
	var log strings.Builder
	p := newPauseFile(config.NewSwitch(path), slog.New(slog.NewTextHandler(&log, nil)))
	for _, step := range []struct {
		text   string // "-": the file is removed
		on     bool
		logged int
	}{
		{"-", false, 0},
		{"yes", false, 1},
		{"yes", false, 1},
		{"true", true, 1},
		{"off", true, 2},
		{"", true, 3},
		{"false", false, 3},
		{"true", true, 3},
		{"-", false, 3},
	} {
		if step.text == "-" {
			_ = os.Remove(path) // it may not exist
		} else if err := os.WriteFile(path, []byte(step.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if on, logged := p.paused(), strings.Count(log.String(), "\n"); on != step.on || logged != step.logged {
			t.Errorf("%q: paused %v, logged %d times", step.text, on, logged)
		}
	}
}
