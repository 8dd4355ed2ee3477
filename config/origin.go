package config

import (
	"errors"
	"os"
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
		l.add(Problem{Variable: name + fileSuffix, Value: &path, Text: err.Error()})
		return origin{variable: name, given: true, broken: true, path: path, text: setting.Default}, true
	}
	return origin{variable: name, given: true, path: path, text: text}, true
}

// readFile returns the content of a setting's file without the newline that editors add at its end.
func readFile(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		if cause := errors.Unwrap(err); cause != nil { // without the path, which the caller prints
			err = cause
		}
		return "", &fileError{err}
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
	if text == "" {
		return "", &fileError{errors.New("it is empty")}
	}
	return text, nil
}

// A fileError reports a settings file that gave no value.
type fileError struct{ cause error }

func (e *fileError) Error() string {
	return "is a file that cannot be used: " + e.cause.Error() + "; check its path, permissions and content"
}
func (e *fileError) Unwrap() error { return e.cause }
