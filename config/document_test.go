package config

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false,
	"rewrite the settings table in docs/settings.md and the chart's list of settings")

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
	for _, group := range Groups() {
		fmt.Fprintf(&b, "\n## %s\n\n| variable | default | meaning |\n|---|---|---|\n", group.Title)
		var details strings.Builder
		for _, s := range group.Settings {
			name, value := "`"+s.Name+"`", s.Unset
			if s.PerDestination && !s.named {
				name += " *"
			}
			if s.Default != "" {
				value = "`" + s.Default + "`"
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", name, value, strings.ReplaceAll(s.Description, "*", `\*`))
			if s.Detail != "" {
				text := fmt.Sprintf("* `%s`: %s", s.Name, strings.ReplaceAll(s.Detail, "*", `\*`))
				details.WriteString(folded(text, "  ", 120))
			}
		}
		if details.Len() > 0 {
			b.WriteString("\n" + details.String())
		}
	}
	return b.String() + "\n"
}

// folded breaks a text into lines, the second and later ones indented.
func folded(text, indent string, width int) string {
	var out strings.Builder
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) > width:
			out.WriteString(line + "\n")
			line = indent + word
		default:
			line += " " + word
		}
	}
	return out.String() + line + "\n"
}

// Each setting has a group, and a description that takes at most two lines of a table.
func TestGroups(t *testing.T) {
	t.Parallel()
	grouped := map[string]int{}
	for _, group := range Groups() {
		for _, s := range group.Settings {
			grouped[s.Name]++
		}
	}
	for _, s := range Settings() {
		if grouped[s.Name] != 1 {
			t.Errorf("%s is in %d groups", s.Name, grouped[s.Name])
		}
		if s.Description == "" || len(s.Description) > 120 {
			t.Errorf("%s: the description has %d bytes; what is longer than 120 belongs below the table", s.Name,
				len(s.Description))
		}
	}
}
