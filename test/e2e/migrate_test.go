package e2e

import (
	"os"
	"strings"
	"testing"
)

// way is a section of docs/migrating.md: its blocks of statements and of settings, by the comment in their first line.
type way map[string]string

// guide reads a section.
func guide(t testing.TB, heading string) way {
	t.Helper()
	content, err := os.ReadFile("../../docs/migrating.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(content), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("docs/migrating.md has no section %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := way{}
	for i, block := range strings.Split(section, "```") {
		if i%2 == 0 {
			continue // text
		}
		_, block, _ = strings.Cut(block, "\n") // after the language
		name, text, _ := strings.Cut(block, "\n")
		blocks[strings.TrimLeft(name, "-# ")] = text
	}
	return blocks
}

func (w way) block(t testing.TB, name string) string {
	t.Helper()
	text, found := w[name]
	if !found {
		t.Fatalf("docs/migrating.md has no block %q", name)
	}
	return text
}

// statements returns the statements of a block.
func (w way) statements(t testing.TB, name string) (all []string) {
	t.Helper()
	for _, statement := range strings.SplitAfter(w.block(t, name), ";\n") {
		if strings.TrimSpace(statement) != "" {
			all = append(all, statement)
		}
	}
	return all
}

// run executes the statements of a block as psql does, one after the other in one session.
func (w way) run(t testing.TB, outbox *table, name string) {
	t.Helper()
	conn, err := outbox.Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Conn().Close(t.Context()); conn.Release() }() // discards what the statements have set
	for _, statement := range w.statements(t, name) {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// settings returns the variables of a block.
func (w way) settings(t testing.TB, name string) settings {
	t.Helper()
	return strings.Fields(w.block(t, name))
}

// checkServed checks that doctor finds no error and recommends no index.
func checkServed(t testing.TB, env settings) {
	t.Helper()
	code, out, problems := runCommand(t, env, "doctor")
	lacks := strings.Contains(strings.ReplaceAll(out, "pending rows by key", ""), "warning  index")
	if code != 0 || lacks && strings.Count(out, "warning  index") > strings.Count(out, "no index of pending rows by key") {
		t.Errorf("doctor: status %d:\n%s%s", code, out, problems)
	}
}

// checkNumbers checks that the rows with the numbers below n have arrived and no others, each key in order, and returns
// the number of duplicates.
func checkNumbers(t testing.TB, got []delivery, n int) (duplicates int) {
	t.Helper()
	seen, last, wrong := make([]bool, n), map[string]int{}, 0
	for _, d := range got {
		number := d.number(t)
		if number < 0 || number >= n {
			t.Fatalf("message %s has the number %d of %d", d.id, number, n)
		}
		if seen[number] {
			if duplicates++; duplicates <= 10 {
				t.Logf("number %d of %d came again", number, n)
			}
			continue
		}
		seen[number] = true
		if before, known := last[d.key]; known && number < before {
			if wrong++; wrong <= 10 {
				t.Errorf("key %s: number %d arrived after %d", d.key, number, before)
			}
		}
		last[d.key] = number
	}
	missing := 0
	for _, arrived := range seen {
		if !arrived {
			missing++
		}
	}
	if missing > 0 {
		t.Errorf("%d of %d messages are missing", missing, n)
	}
	return duplicates
}
