package config

import (
	"errors"
	"io/fs"
	"strings"
)

// A Switch is a setting that is true or false. If it is given as a file, it may change while the relay runs.
type Switch struct {
	on   bool
	path string // path of the file that holds the value; empty if it came from a variable
}

// NewSwitch returns a Switch that its file turns on and off, for tests and tools.
func NewSwitch(path string) Switch { return Switch{path: path} }

// File returns the path of the file that is read, empty if there is none.
func (s Switch) File() string { return s.path }

// Read returns whether the switch is on now. A missing file turns it off. The error is about a file that is neither true nor
// false, or that cannot be read.
func (s Switch) Read() (on bool, err error) {
	if s.path == "" {
		return s.on, nil
	}
	return readSwitch(s.path)
}

func readSwitch(path string) (on bool, err error) {
	content, err := readFile(path)
	switch text := strings.TrimSpace(content); {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil && !errors.Is(err, errEmpty):
		return false, err
	case text == "true", text == "false":
		return text == "true", nil
	default:
		return false, errNoSwitch
	}
}

var errNoSwitch = errors.New("the file contains neither true nor false; write one of them into it")
