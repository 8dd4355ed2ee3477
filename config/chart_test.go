package config

import (
	"os"
	"strings"
	"testing"
)

// The chart refuses settings that are not in its list, which is made from the struct tags.
func TestChartKnowsEverySetting(t *testing.T) {
	t.Parallel()
	const path = "../charts/outbox-relay/files/settings.txt"
	var want strings.Builder
	for _, s := range Settings() {
		want.WriteString(s.Name + "\n")
		if s.PerDestination && !s.named {
			want.WriteString(destinationPattern + s.key + "\n")
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want.String() {
		t.Errorf("%s is out of date: go test ./config -run TestChartKnowsEverySetting -update", path)
	}
}
