// Package panics turns a panic into an error, so that it ends the work in which it happened and not the process.
package panics

import (
	"fmt"
	"path"
	"runtime"
	"strings"
	"sync"
)

// An Error is a panic that was caught.
type Error struct {
	Place   string // the file and line that panicked, with the file's directory
	text    string // text of the panic's value
	callers []uintptr
}

const (
	mostCallers = 64
	mostText    = 1 << 10 // in bytes
)

// Caught returns the panic whose value recover returned. Only the deferred function that called recover may call it.
func Caught(value any) *Error {
	callers := make([]uintptr, mostCallers)
	// skips up to the deferred function
	e := &Error{text: fmt.Sprint(value), callers: callers[:runtime.Callers(3, callers)]}
	if len(e.text) > mostText {
		e.text = e.text[:mostText] + "…"
	}
	e.each(func(f runtime.Frame) bool {
		e.Place = fmt.Sprintf("%s/%s:%d", path.Base(path.Dir(f.File)), path.Base(f.File), f.Line)
		return strings.HasPrefix(f.Function, "runtime.") // the runtime panics for an index out of range, for example
	})
	return e
}

func (e *Error) Error() string { return "panic at " + e.Place + ": " + e.text }

// Stack returns the calls that led to the panic, the innermost first.
func (e *Error) Stack() string {
	var b strings.Builder
	e.each(func(f runtime.Frame) bool {
		fmt.Fprintf(&b, "%s\n\t%s:%d\n", f.Function, f.File, f.Line)
		return true
	})
	return b.String()
}

// each calls f with the calls that led to the panic, for as long as it returns true.
func (e *Error) each(f func(runtime.Frame) bool) {
	for frames := runtime.CallersFrames(e.callers); ; {
		frame, more := frames.Next()
		if !f(frame) || !more {
			return
		}
	}
}

// Places remembers where panics occurred. The zero Places is empty and ready for use.
type Places struct {
	mu   sync.Mutex
	seen map[string]bool
}

// First reports whether the panic is the first at its place.
func (p *Places) First(e *Error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen[e.Place] {
		return false
	}
	if p.seen == nil {
		p.seen = map[string]bool{}
	}
	p.seen[e.Place] = true
	return true
}
