package panics

import (
	"errors"
	"strings"
	"testing"
)

func index(list []int, i int) int { return list[i] }

func catch(f func()) (e *Error) {
	defer func() {
		if value := recover(); value != nil {
			e = Caught(value)
		}
	}()
	f()
	return nil
}

// The place of a panic is in the code that caused it, not in the runtime, and the stack begins there.
func TestCaught(t *testing.T) {
	t.Parallel()
	var none *strings.Builder
	for name, test := range map[string]struct {
		f    func()
		text string
	}{
		"own":     {func() { panic(errors.New("own words")) }, ": own words"},
		"index":   {func() { index(nil, 3) }, ": runtime error: index out of range [3] with length 0"},
		"pointer": {func() { index([]int{none.Len()}, 0) }, "nil pointer dereference"},
		"nil":     {func() { panic(nil) }, "panic called with nil argument"}, //nolint:govet // as some library may
		"long":    {func() { panic(strings.Repeat("x", 1<<20)) }, "xx…"},
	} {
		e := catch(test.f)
		if e == nil || !strings.Contains(e.Error(), test.text) || len(e.Error()) > 2*mostText {
			t.Fatalf("%s: %v", name, e)
		}
		if where := "panics/panics_test.go:"; name != "pointer" && !strings.HasPrefix(e.Place, where) {
			t.Errorf("%s: it was at %s", name, e.Place)
		}
		if stack := e.Stack; !strings.Contains(stack, "TestCaught") || strings.Contains(stack, "catch.func") {
			t.Errorf("%s: the stack is\n%s", name, stack)
		}
	}
	if catch(func() {}) != nil {
		t.Error("nothing has panicked")
	}
}
