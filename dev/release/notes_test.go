package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The changelog has notes for the version that is prepared: the chart's.
func TestNotes(t *testing.T) {
	t.Parallel()
	chart, err := os.ReadFile("../../charts/outbox-relay/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^version: (\S+)$`).FindSubmatch(chart)
	if version == nil {
		t.Fatal("the chart has no version")
	}
	prepared := string(version[1])
	for _, v := range []string{prepared, prepared + "-rc.1"} {
		var notes strings.Builder
		if err := (&Release{Checkout: "../..", Version: v}).Notes(&notes); err != nil {
			t.Fatal(err)
		}
		if len(notes.String()) < 1000 || strings.Contains(notes.String(), "\n## ") {
			t.Errorf("%s: these are not the notes of one version:\n%s", v, notes.String())
		}
	}
	if err := (&Release{Checkout: "../..", Version: "99.0.0"}).Notes(&strings.Builder{}); err == nil {
		t.Error("a version that the changelog does not have has notes")
	}
}
