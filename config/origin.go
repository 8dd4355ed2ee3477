package config

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// fileSuffix is the suffix of a variable that holds the path of a file with a setting's value.
const fileSuffix = "_FILE"

// An origin is the text of a setting and where it came from.
type origin struct {
	variable  string // without _FILE
	text      string
	path      string // path of the file, if it came from one
	given     bool   // found in the environment; otherwise the text is the default
	inherited bool   // found under another name than the setting's own
	broken    bool   // a problem was reported; the default is in force meanwhile
}

// source describes where the value came from.
func (o origin) source() string {
	switch {
	case !o.given:
		return "default"
	case o.inherited && o.path != "":
		return o.variable + fileSuffix + ", file " + o.path
	case o.inherited:
		return o.variable
	case o.path != "":
		return "file " + o.path
	default:
		return "environment"
	}
}

// lookup finds a setting under one prefix, as a value or as a file. ok is false if it is not set. A file that cannot be read is
// a problem and counts as set.
func (l *loader) lookup(prefix string, setting Setting) (o origin, ok bool) {
	name := prefix + setting.key
	text, set := l.env[name]
	text = withoutNewline(text)
	set = set && (text != "" || setting.emptyOK)
	path := l.env[name+fileSuffix]
	switch {
	case set && path != "":
		l.add(Problem{Variable: name, Text: "is set twice, also as " + name + fileSuffix + "; remove one of them"})
		return origin{variable: name, given: true, broken: true, text: setting.Default}, true
	case set:
		return origin{variable: name, given: true, text: text}, true
	case path == "":
		return origin{}, false
	case setting.live:
		on, _ := readSwitch(path) // problems of the file are reported while the relay runs
		return origin{variable: name, given: true, path: path, text: strconv.FormatBool(on)}, true
	}
	text, err := readFile(path)
	if err != nil {
		p := Problem{Variable: name + fileSuffix, Value: &path, Text: err.Error()}
		if setting.Secret && !mayBePath(path) {
			p.Value = nil
		}
		l.add(p)
		return origin{variable: name, given: true, broken: true, path: path, text: setting.Default}, true
	}
	return origin{variable: name, given: true, path: path, text: text}, true
}

// mayBePath reports whether a text that names no file is meant as a path, and not as the secret itself.
func mayBePath(text string) bool {
	folder := filepath.Dir(text)
	info, err := os.Stat(folder)
	return err == nil && info.IsDir() && folder != "." && folder != "/"
}

// mostBytes bounds the size of a setting's file.
const mostBytes = 1 << 20

// readFile returns the content of a setting's file without the newline that editors add at its end. It refuses pipes and devices,
// whose content might never end.
func readFile(path string) (string, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	var content []byte
	if err == nil && info.Size() > mostBytes {
		err = errors.New("it has more than 1 MiB")
	}
	if err == nil {
		content, err = os.ReadFile(path)
	}
	if err != nil {
		if cause := errors.Unwrap(err); cause != nil { // without the path, which the caller prints
			err = cause
		}
		return "", &fileError{err}
	}
	text := withoutNewline(string(content))
	if text == "" {
		return "", &fileError{errEmpty}
	}
	return text, nil
}

var errEmpty = errors.New("it is empty")

// withoutNewline removes one newline from the end of a text, where editors and echo leave one.
func withoutNewline(text string) string {
	return strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
}

// A fileError reports a settings file that gave no value.
type fileError struct{ cause error }

func (e *fileError) Error() string {
	return "is a file that cannot be used: " + e.cause.Error() + "; check its path, permissions and content"
}
func (e *fileError) Unwrap() error { return e.cause }
