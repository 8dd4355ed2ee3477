package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// Every mutant still changes the code, and the tests that must notice it exist.
func TestMutantsApply(t *testing.T) {
	root, err := module(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, m := range mutants {
		text, err := m.mutated(root)
		if err != nil {
			t.Error(err)
			continue
		}
		before, err := os.ReadFile(filepath.Join(root, m.file))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(before, text) || m.breaks == "" || names[m.name] {
			t.Errorf("mutant %q changes nothing, breaks no rule, or is there twice", m.name)
		}
		names[m.name] = true
		if !tested(t, filepath.Join(root, m.pkg), m.tests) {
			t.Errorf("mutant %q: package %s has no test like %s", m.name, m.pkg, m.tests)
		}
	}
	if len(mutants) < 16 {
		t.Errorf("%d mutants", len(mutants))
	}
}

// tested reports whether a package has a test whose name matches.
func tested(t *testing.T, dir, pattern string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	wanted := regexp.MustCompile(pattern)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(text, -1) {
			if wanted.Match(match[1]) {
				return true
			}
		}
	}
	return false
}

func TestJudge(t *testing.T) {
	for output, want := range map[string]verdict{
		"ok  	x	1s": {passed: true, built: true, after: "1s"},
		"--- FAIL: TestA (0.1s)\n    --- FAIL: TestA/b\n    seeds_test.go:50: schedule 17 of 2500 failed; repeat": {
			built: true, by: "TestA",
			after: "schedule 17",
		},
		"FAIL	x [build failed]":                         {after: "1s"},
		"panic: deadlock\n	relay.TestSomething.func1()": {built: true, by: "TestSomething", after: "1s"},
		"panic: nil\n	dispatch.(*Dispatch).Take()":      {built: true, by: "a panic, or the end of its time", after: "1s"},
	} {
		got := judge(output, want.passed, time.Second)
		got.output = ""
		if got != want {
			t.Errorf("%q: %+v, want %+v", output, got, want)
		}
	}
}
