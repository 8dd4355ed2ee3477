package config

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the settings table in docs/settings.md and the chart's list of settings")

// The table of settings in its document is made from the struct tags.
func TestSettings(t *testing.T) {
	t.Parallel()
	const path, begin, end = "../docs/settings.md", "<!-- settings:begin -->\n", "<!-- settings:end -->"
	readme, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(readme), begin)
	old, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("docs/settings.md lacks the marks %s and %s", begin, end)
	}
	table := settingsTable()
	if old == table {
		return
	}
	if !*update {
		t.Fatal("the table of settings in docs/settings.md is out of date: go test ./config -run TestSettings -update")
	}
	if err := os.WriteFile(path, []byte(before+begin+table+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

func settingsTable() string {
	var b strings.Builder
	b.WriteString("| variable | default | meaning |\n|---|---|---|\n")
	for _, s := range Settings() {
		name, value := "`"+s.Name+"`", s.Unset
		if s.PerDestination && !s.named {
			name += " *"
		}
		if s.Default != "" {
			value = "`" + s.Default + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, value, strings.ReplaceAll(s.Description, "*", `\*`))
	}
	return b.String()
}
