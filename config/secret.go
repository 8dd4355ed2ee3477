package config

import (
	"fmt"
	"io"
)

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
