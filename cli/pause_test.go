package cli

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/config"
)

// What a pause file says that is neither true nor false changes nothing, and is told once.
func TestPauseFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pause")
	var log strings.Builder
	p := newPauseFile(config.NewSwitch(path), slog.New(slog.NewTextHandler(&log, nil)))
	for _, step := range []struct {
		text string // "-": the file is gone
		on   bool
		told int
	}{{"-", false, 0}, {"yes", false, 1}, {"yes", false, 1}, {"true", true, 1}, {"off", true, 2}, {"", true, 2}, {"false", false, 2},
		{"true", true, 2}, {"-", false, 2}} {
		if step.text == "-" {
			_ = os.Remove(path) // it may be gone
		} else if err := os.WriteFile(path, []byte(step.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if on, told := p.paused(), strings.Count(log.String(), "\n"); on != step.on || told != step.told {
			t.Errorf("%q: paused %v, told %d times", step.text, on, told)
		}
	}
}
