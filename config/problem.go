package config

import (
	"fmt"
	"slices"
	"strings"
)

// An Error lists all problems of the environment, each as a sentence about one variable that says what to do. It
// contains no secret.
type Error struct{ Problems []string }

// Error returns the problems, one on each line.
func (e *Error) Error() string {
	if len(e.Problems) == 1 {
		return "configuration: " + e.Problems[0]
	}
	return fmt.Sprintf("configuration: %d problems\n  %s", len(e.Problems), strings.Join(e.Problems, "\n  "))
}

// add records a problem once: destinations that inherit a setting find the same problems. The text continues the
// sentence after the variable; a value is nil if there is none to show or if it is secret. One of several lines is not
// shown either: it is the content of a file, given in place of its path.
func (l *loader) add(variable string, value *string, text string) {
	if value != nil && !strings.Contains(*value, "\n") {
		shown := fmt.Sprintf("%.200s", *value)
		if shown != *value {
			shown += "…"
		}
		variable += fmt.Sprintf("=%q", shown)
	}
	if problem := variable + " " + text; !slices.Contains(l.problems, problem) {
		l.problems = append(l.problems, problem)
	}
}

func (l *loader) err() error {
	if len(l.problems) == 0 {
		return nil
	}
	return &Error{Problems: l.problems}
}

// badIf records a problem if there is one; see [scope.bad].
func (s *scope) badIf(is bool, key, format string, args ...any) {
	if is {
		s.bad(key, format, args...)
	}
}

// bad records a problem with the value of a setting. The text must not repeat the value, which is shown with the
// variable unless it is secret.
func (s *scope) bad(key, format string, args ...any) {
	o := s.at(key)
	if o.broken {
		return
	}
	text, shown := fmt.Sprintf(format, args...), &o.text
	if o.Secret {
		shown = nil
	}
	if o.path != "" {
		text = "(from the file " + o.path + ") " + text
	}
	s.loader.add(o.variable, shown, text)
}
