package main

import (
	"regexp"
	"strings"
	"time"
)

// A verdict is the result of the tests of a mutant.
type verdict struct {
	passed bool
	built  bool
	by     string // the tests that failed
	after  string // number of random schedules, or time, until the end
	output string
}

var (
	failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)
	scheduleOf = regexp.MustCompile(`schedule (\d+) of \d+ failed`)
	testedFunc = regexp.MustCompile(`relay\.(Test\w+)`)
)

// judge reads the output of go test.
func judge(output string, passed bool, took time.Duration) verdict {
	v := verdict{
		passed: passed, built: !strings.Contains(output, "[build failed]") && !strings.Contains(output, "[setup failed]"),
		after: took.Round(100 * time.Millisecond).String(), output: output,
	}
	var names []string
	for _, match := range failedTest.FindAllStringSubmatch(output, -1) {
		names = append(names, match[1])
	}
	if len(names) == 0 && !passed && v.built { // it panicked, or its time was over
		by := "a panic, or the end of its time"
		if match := testedFunc.FindStringSubmatch(output); match != nil {
			by = match[1]
		}
		names = append(names, by)
	}
	v.by = strings.Join(names, ", ")
	if match := scheduleOf.FindStringSubmatch(output); match != nil {
		v.after = "schedule " + match[1]
	}
	return v
}
