package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/config"
)

// An error from several attempts is one line of the log, with each different error once.
func TestLoggedErrorsAreOneLine(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"json", "text"} {
		var log bytes.Buffer
		newLogger(&log, &config.Config{LogFormat: format}).Info("m", "error",
			errors.New("failed:\n\th:1: refused\n\th:1: refused\n\th:2: refused"), "n", 1)
		if !strings.Contains(log.String(), `"failed: h:1: refused; h:2: refused"`) {
			t.Errorf("%s: %s", format, log.String())
		}
	}
}
