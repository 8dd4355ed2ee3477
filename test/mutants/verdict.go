package main

import (
	"regexp"
	"strings"
	"time"
)

// A verdict is what the tests said.
type verdict struct {
	passed bool
	built  bool
	by     string // the tests that failed
	after  string // so many random schedules, or so much time
	output string
}

var (
	failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)
	scheduleOf = regexp.MustCompile(`schedule (\d+) of \d+ failed`)
	testedFunc = regexp.MustCompile(`relay\.(Test\w+)`)
)

// judge reads what go test printed.
func judge(output string, passed bool, took time.Duration) verdict {
	v := verdict{passed: passed, built: !strings.Contains(output, "[build failed]") && !strings.Contains(output, "[setup failed]"),
		after: took.Round(100 * time.Millisecond).String(), output: output}
	var names []string
	for _, match := range failedTest.FindAllStringSubmatch(output, -1) {
		names = append(names, match[1])
	}
	if len(names) == 0 && !passed { // it panicked, or the time was over
		if match := testedFunc.FindStringSubmatch(output); match != nil {
			names = append(names, match[1])
		}
	}
	v.by = strings.Join(names, ", ")
	if match := scheduleOf.FindStringSubmatch(output); match != nil {
		v.after = "schedule " + match[1]
	}
	return v
}
