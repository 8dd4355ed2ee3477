// Package panics turns a panic into an error, so that it ends the work in which it happened and not the process.
package panics

import (
	"fmt"
	"path"
	"runtime"
	"strings"
)

// An Error is a panic that was caught.
type Error struct {
	Place string // the file and line that panicked, with the file's directory
	Stack string // the calls that led to the panic, the innermost first
	text  string // text of the panic's value
}

const (
	mostCallers = 64
	mostText    = 1 << 10 // in bytes
)

// Caught returns the panic whose value recover returned. Only the deferred function that called recover may call it.
func Caught(value any) *Error {
	e := &Error{text: fmt.Sprint(value)}
	if len(e.text) > mostText {
		e.text = e.text[:mostText] + "…"
	}
	callers := make([]uintptr, mostCallers)
	// skips up to the deferred function
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers)])
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		// The runtime panics for an index out of range, for example.
		if e.Place == "" && !strings.HasPrefix(f.Function, "runtime.") {
			e.Place = fmt.Sprintf("%s/%s:%d", path.Base(path.Dir(f.File)), path.Base(f.File), f.Line)
		}
		e.Stack += fmt.Sprintf("%s\n\t%s:%d\n", f.Function, f.File, f.Line)
	}
	return e
}

func (e *Error) Error() string { return "panic at " + e.Place + ": " + e.text }
