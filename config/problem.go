package config

import (
	"fmt"
	"slices"
	"strings"
)

// An Error lists all problems of the environment. It contains no secret.
type Error struct{ Problems []Problem }

// A Problem is what is wrong with one variable and what to do about it.
type Problem struct {
	Variable string
	Value    *string // nil if there is no value to show or if it is secret
	Text     string  // continues the sentence after the variable: "is required; …"
}

// String returns the problem as one sentence.
func (p Problem) String() string {
	if p.Value == nil {
		return p.Variable + " " + p.Text
	}
	const longest = 200
	value := *p.Value
	if len(value) > longest {
		value = value[:longest] + "…"
	}
	return fmt.Sprintf("%s=%q %s", p.Variable, value, p.Text)
}

// Error returns the problems, one on each line.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	if len(lines) == 1 {
		return "configuration: " + lines[0]
	}
	return fmt.Sprintf("configuration: %d problems\n  %s", len(lines), strings.Join(lines, "\n  "))
}

// add records a problem once: destinations that inherit a setting find the same problems.
func (l *loader) add(p Problem) {
	if !slices.ContainsFunc(l.problems, func(q Problem) bool { return q.String() == p.String() }) {
		l.problems = append(l.problems, p)
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

// badErr records an error as a problem, if it is one; see [scope.bad].
func (s *scope) badErr(key string, err error) { s.badIf(err != nil, key, "%v", err) }

// bad records a problem with the value of a setting. The text must not repeat the value, which is shown with the
// variable unless it is secret.
func (s *scope) bad(key, format string, args ...any) {
	o := s.origins[key]
	if o.broken {
		return
	}
	p := Problem{Variable: o.variable, Text: fmt.Sprintf(format, args...)}
	if secret := slices.ContainsFunc(s.settings, func(x Setting) bool { return x.key == key && x.Secret }); !secret {
		p.Value = &o.text
	}
	if o.path != "" {
		p.Text = "(from the file " + o.path + ") " + p.Text
	}
	s.loader.add(p)
}
