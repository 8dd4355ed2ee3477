package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
)

// fileSuffix is the suffix of a variable that holds the path of a file with a setting's value.
const fileSuffix = "_FILE"

// readFile returns the content of a setting's file without what editors add to it. It refuses pipes and devices, whose
// content might never end. The error does not name the path, which the caller prints.
func readFile(path string) (string, error) {
	info, err := os.Stat(path)
	var content []byte
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = errors.New("it is not a regular file")
	default:
		content, err = os.ReadFile(path)
	}
	text := withoutMarks(string(content))
	if err == nil && text == "" {
		err = errors.New("it is empty")
	}
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathError.Err
	}
	if err != nil {
		return "", fmt.Errorf("is a file that cannot be used: %w; check its path, permissions and content", err)
	}
	return text, nil
}

// withoutMarks removes what editors and echo add to a text: one newline at its end, and a byte order mark.
func withoutMarks(text string) string {
	return strings.TrimPrefix(strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r"), "\ufeff")
}

// A Switch is a setting that is true or false. If it is given as a file, it may change while the relay runs.
type Switch struct {
	on     bool
	path   string // path of the file that holds the value; empty if it came from a variable
	logged string // the problem with the file that was logged last, empty if there is none
}

// On returns whether the switch is on now. A missing file turns it off. A file that is neither true nor false, or that
// cannot be read, changes nothing, and the problem is logged once. One goroutine calls it.
func (s *Switch) On(logger *slog.Logger) bool {
	if s.path == "" {
		return s.on
	}
	content, err := readFile(s.path)
	text := strings.TrimSpace(content)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		text, err = "false", nil
	case err == nil && text != "true" && text != "false":
		err = errors.New("the file contains neither true nor false; write one of them into it")
	}
	if err == nil {
		s.on, s.logged = text == "true", ""
	} else if s.logged != err.Error() {
		s.logged = err.Error()
		logger.Warn("pause file is neither true nor false; the last state is kept", "file", s.path, "paused", s.on,
			"error", err)
	}
	return s.on
}

// A Secret is a value that must not be printed, such as a password or a URL that may contain one. All ways of
// formatting it give the redacted form. The zero Secret was not given.
type Secret struct {
	value    string
	path     string // path of the file that holds the value; empty if the value came from a variable
	variable string // variable with the path
	shown    string // redacted form
}

// IsSet reports whether the secret was given.
func (s Secret) IsSet() bool { return s.value != "" }

// Read returns the current value. A value from a file is read again, so that the next connection uses a rotated
// password without a restart. The error then names the variable, not the file's content.
func (s Secret) Read() (string, error) {
	if s.path == "" {
		return s.value, nil
	}
	text, err := readFile(s.path)
	if err != nil {
		return "", fmt.Errorf("%s %w", s.variable, err)
	}
	return text, nil
}

// Loaded returns the value at the time when the configuration was loaded.
func (s Secret) Loaded() string { return s.value }

// Format prints the redacted form: of a URL everything except its password, of anything else nothing.
func (s Secret) Format(to fmt.State, _ rune) { _, _ = io.WriteString(to, s.shown) }

// MarshalText gives the redacted form, for JSON and logs.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.shown), nil }
