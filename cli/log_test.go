package cli

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

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

// An error is cut: a trigger of the table may put a whole row into its message.
func TestLoggedErrorsAreBounded(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	newLogger(&log, &config.Config{LogFormat: "json"}).Info("m", "error", errors.New(strings.Repeat("x", 100_000)))
	if n := log.Len(); n > longestError+200 {
		t.Errorf("a line of %d bytes", n)
	}
}

// A duration is written with its units, whatever the format.
func TestLoggedDurations(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{"json": `"for":"5m5s"`, "text": "for=5m5s"} {
		var log bytes.Buffer
		newLogger(&log, &config.Config{LogFormat: format}).Info("m", "for", 305*time.Second)
		if !strings.Contains(log.String(), want) {
			t.Errorf("%s: %s", format, log.String())
		}
	}
}

// At level debug each batch is a line, with the time that it took.
func TestBatchesAreLogged(t *testing.T) {
	s, env := failedRows(t)
	s.Exec(t, "insert into outbox_messages (topic, payload) values ('a', '{}'), ('b', '{}')")
	status, _, errs := execute(t, append(env, "OUTBOX_PUBLISH_URL=stdout:", "OUTBOX_LOG_LEVEL=debug"), "drain")
	line := regexp.MustCompile(
		`"msg":"batch published","destination":"default","rows":\d+,"took":"[^"]+s"`)
	if status != 0 || !line.MatchString(errs) {
		t.Errorf("status %d: %s", status, errs)
	}
}

// No text steers the terminal on which a log is read.
func TestLoggedControlCharacters(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"json", "text"} {
		var log bytes.Buffer
		newLogger(&log, &config.Config{LogFormat: format}).Info("m", "topic", "a\u009b31m\u202e", "error",
			errors.New("b\u009b"))
		if strings.ContainsAny(log.String(), "\u009b\u202e") || !strings.Contains(log.String(), `a\u009b31m\u202e`) {
			t.Errorf("%s: %q", format, log.String())
		}
	}
}
