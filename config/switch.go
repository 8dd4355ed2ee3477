package config

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

// A Switch is a setting that is true or false. One that is given as a file may change while the relay runs.
type Switch struct {
	on   bool
	path string // of the file that says so; empty when it came from a variable
}

// NewSwitch returns a Switch that its file turns on and off, for tests and tools.
func NewSwitch(path string) Switch { return Switch{path: path} }

// File is the path of the file that is read, empty when there is none.
func (s Switch) File() string { return s.path }

// Read returns whether the switch is on now. A file that is missing turns it off. The error is about a file that says
// neither true nor false, or cannot be read.
func (s Switch) Read() (on bool, err error) {
	if s.path == "" {
		return s.on, nil
	}
	return readSwitch(s.path)
}

func readSwitch(path string) (on bool, err error) {
	content, err := os.ReadFile(path)
	switch text := strings.TrimSpace(string(content)); {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case text == "true", text == "false":
		return text == "true", nil
	default:
		return false, errNoSwitch
	}
}

var errNoSwitch = errors.New("the file says neither true nor false; write one of them into it")
