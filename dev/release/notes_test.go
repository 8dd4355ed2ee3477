package main

import (
	"os"
	"os/exec"
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
		notes, err := exec.CommandContext(t.Context(), "make", "-C", "../..", "release-notes", "VERSION="+v).Output()
		if err != nil || len(notes) < 1000 || strings.Contains(string(notes), "\n## ") {
			t.Errorf("%s: these are not the notes of one version: %v\n%s", v, err, notes)
		}
	}
	if exec.CommandContext(t.Context(), "make", "-C", "../..", "release-notes", "VERSION=99.0.0").Run() == nil {
		t.Error("a version that the changelog does not have has notes")
	}
}
