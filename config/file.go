package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// fileSuffix is the suffix of a variable that holds the path of a file with a setting's value.
const fileSuffix = "_FILE"

// mostBytes bounds the size of a setting's file.
const mostBytes = 1 << 20

var errEmpty = errors.New("it is empty")

// readFile returns the content of a setting's file without what editors add to it. It refuses pipes and devices, whose
// content might never end. The error does not name the path, which the caller prints.
func readFile(path string) (string, error) {
	info, err := os.Stat(path)
	var content []byte
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = errors.New("it is not a regular file")
	case info.Size() > mostBytes:
		err = errors.New("it has more than 1 MiB")
	default:
		content, err = os.ReadFile(path)
	}
	text := withoutMarks(string(content))
	if err == nil && text == "" {
		err = errEmpty
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
	on   bool
	path string // path of the file that holds the value; empty if it came from a variable
}

// NewSwitch returns a Switch that its file turns on and off, for tests and tools.
func NewSwitch(path string) Switch { return Switch{path: path} }

// File returns the path of the file that is read, empty if there is none.
func (s Switch) File() string { return s.path }

// Read returns whether the switch is on now. A missing file turns it off. The error is about a file that is neither
// true nor false, or that cannot be read.
func (s Switch) Read() (on bool, err error) {
	if s.path == "" {
		return s.on, nil
	}
	content, err := readFile(s.path)
	switch text := strings.TrimSpace(content); {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil && !errors.Is(err, errEmpty):
		return false, err
	case text == "true", text == "false":
		return text == "true", nil
	default:
		return false, errors.New("the file contains neither true nor false; write one of them into it")
	}
}
