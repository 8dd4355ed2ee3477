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
	for group, text := range Help {
		title, _, _ := strings.Cut(text, "\n")
		fmt.Fprintf(&b, "\n## %s\n\n| variable | default | meaning |\n|---|---|---|\n", title)
		var details strings.Builder
		for _, m := range meaningsIn(group) {
			name, value := "`"+m.variable+"`", m.otherwise
			if m.common {
				name += " *"
			}
			if m.setting.Default != "" {
				value = "`" + m.setting.Default + "`"
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", name, value, strings.ReplaceAll(m.description, "*", `\*`))
			if m.detail != "" {
				text := fmt.Sprintf("* `%s`: %s", m.variable, strings.ReplaceAll(m.detail, "*", `\*`))
				details.WriteString(folded(text, "  ", 120))
			}
		}
		if details.Len() > 0 {
			b.WriteString("\n" + details.String())
		}
	}
	return b.String() + "\n"
}

// A meaning is what settings.txt says of a setting.
type meaning struct {
	variable            string
	common              bool   // marked with *
	value, otherwise    string // the default, or what holds without one, in words
	description, detail string
	setting             Setting
}

// meaningsIn reads a group of settings.txt, of all groups for an empty name.
func meaningsIn(name string) (found []meaning) {
	settings := map[string]Setting{}
	for _, s := range Settings() {
		settings[s.Name] = s
	}
	for group, text := range Help {
		for part := range strings.SplitSeq(text, "\n  "+Prefix) {
			if head, rest, is := strings.Cut(part, "\n      "); is && (name == "" || name == group) {
				var m meaning
				m.variable, m.otherwise, _ = strings.Cut(Prefix+head, "  (")
				m.otherwise = strings.TrimSuffix(m.otherwise, ")")
				if value, is := strings.CutPrefix(m.otherwise, "default "); is {
					m.value, m.otherwise = value, ""
				}
				m.otherwise = strings.TrimPrefix(m.otherwise, "default: ")
				m.variable, m.common = strings.CutSuffix(m.variable, " *")
				m.description, m.detail, _ = strings.Cut(rest, "\n")
				m.detail, m.setting = strings.Join(strings.Fields(m.detail), " "), settings[m.variable]
				found = append(found, m)
			}
		}
	}
	return found
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

// Each setting is described once, with the default and the mark that its tags say, in at most two lines of a table.
func TestMeanings(t *testing.T) {
	t.Parallel()
	described := map[string]int{}
	for _, m := range meaningsIn("") {
		described[m.variable]++
		s := m.setting
		if s.Name == "" || m.value != s.Default || m.common != (s.PerDestination && !s.named) {
			t.Errorf("%s is described as another setting than %+v", m.variable, s)
		}
		if m.description == "" || len(m.description) > 120 {
			t.Errorf("%s: the description has %d bytes; what is longer than 120 belongs below the table", m.variable,
				len(m.description))
		}
	}
	for _, s := range Settings() {
		if described[s.Name] != 1 {
			t.Errorf("%s is described %d times", s.Name, described[s.Name])
		}
	}
}
