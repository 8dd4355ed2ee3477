package examples

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A sample is a fenced block of a document.
type sample struct {
	document string
	line     int    // of the opening fence
	language string // the first word after it
	note     string // the rest: a reason why nobody runs it, such as "(not run: it needs a cluster)"
	text     string
}

// documents returns the documents for users: the README, and what is below docs and charts.
func documents(t *testing.T) []string {
	t.Helper()
	all := []string{"README.md"}
	for _, root := range []string{"docs", "charts"} {
		err := filepath.WalkDir(filepath.Join("../..", root), func(path string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".md") {
				all = append(all, strings.TrimPrefix(filepath.ToSlash(path), "../../"))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// first are the documents whose samples of SQL run before those of the others: they make the tables that the others
// use.
var first = []string{"docs/writing.md", "README.md"}

// samples returns the fenced blocks of all documents. Those that nobody runs have a note.
func samples(t *testing.T) (all []sample) {
	t.Helper()
	order := slices.Clone(first)
	for _, document := range documents(t) {
		if !slices.Contains(order, document) {
			order = append(order, document)
		}
	}
	for _, document := range order {
		all = append(all, samplesIn(t, document, read(t, document))...)
	}
	return all
}

func samplesIn(t *testing.T, document, text string) (all []sample) {
	t.Helper()
	open, number := false, 0
	for line := range strings.Lines(text) {
		number++
		switch info, fence := strings.CutPrefix(strings.TrimSpace(line), "```"); {
		case fence && !open:
			open = true
			language, note, _ := strings.Cut(info, " ")
			all = append(all, sample{document: document, line: number, language: language, note: note})
		case fence:
			open = false
		case open:
			all[len(all)-1].text += line
		}
	}
	if open {
		t.Fatalf("%s: a fence is not closed", document)
	}
	return all
}

// frameworks are the pages that "make frameworks" runs, in a project of its own each.
var frameworks = []string{
	"docs/frameworks/django.md", "docs/frameworks/gorm.md", "docs/frameworks/jpa.md", "docs/frameworks/laravel.md",
	"docs/frameworks/rails.md", "docs/frameworks/sqlalchemy.md", "docs/frameworks/typeorm.md",
}

// A claim names the test that runs the samples of a language.
type claim struct {
	language string   // "" for all
	in       []string // documents; none means all others
	test     string   // of this package; or a test's file, from the repository's root, and its name
}

// claims says who runs what. The first one that fits a sample counts.
var claims = []claim{
	{"", frameworks, "test/examples/frameworks_test.go TestFrameworks"},
	{"sql", []string{"docs/consumers.md"}, "TestOnce"},
	{"sql", []string{"docs/migrating.md"}, "test/e2e/migrate_test.go guide"},
	{"sql", []string{"docs/runbook.md"}, "test/e2e/runbook_test.go TestRunbookNamesWhoLocks"},
	{"sql", []string{"docs/alerts.md"}, "TestAlertsSQL"},
	{"sql", nil, "TestSQL"},
	{"go", []string{"docs/consumers.md", "docs/testing.md"}, "TestFilesAreCompiled"},
	{"go", []string{"docs/embedding.md"}, "TestSamplesAreCompiled"},
	{"mod", []string{"docs/embedding.md"}, "TestEmbeddedProgram"},
	{"go", nil, "TestGoIsCompiled"},
	{"java", []string{"docs/consumers.md"}, "TestOnceStatements"},
	{"python", []string{"docs/consumers.md"}, "TestOnceStatements"},
	{"js", []string{"docs/consumers.md"}, "TestOnceStatements"},
	{"java", nil, "TestStatements"},
	{"python", nil, "TestStatements"},
	{"js", nil, "TestStatements"},
	{"elixir", nil, "TestStatements"},
	{"dotenv", []string{"docs/migrating.md"}, "test/e2e/migrate_test.go guide"},
	{"properties", []string{"docs/migrating.md"}, "test/e2e/connector_test.go newConnector"},
	{"dotenv", nil, "TestEnvironments"},
	{"sh", nil, "TestShell"},
	{"console", nil, "TestShell"}, // what the commands before it print
	{"json", nil, "TestJSON"},
	{"yaml", []string{"charts/outbox-relay/README.md"}, "charts/readme_test.go TestReadmeSamples"},
	{"yaml", []string{"docs/alerts.md"}, "TestInhibitions"},
	{"yaml", nil, "TestManifests"},
}

// claimOf returns the claim on a sample, nil if there is none.
func claimOf(s sample) *claim {
	for i, c := range claims {
		if (c.language == s.language || c.language == "") && (c.in == nil || slices.Contains(c.in, s.document)) {
			return &claims[i]
		}
	}
	return nil
}

// claimed returns the samples that the test of this name runs. There must be at least one. One that occurs twice counts
// once.
func claimed(t *testing.T, test string) (found []sample) {
	t.Helper()
	for _, s := range samples(t) {
		same := func(other sample) bool { return other.language == s.language && other.text == s.text }
		if c := claimOf(s); s.note == "" && c != nil && c.test == test && !slices.ContainsFunc(found, same) {
			found = append(found, s)
		}
	}
	if found == nil {
		t.Fatalf("no document has a sample for %s", test)
	}
	return found
}

// drawings are languages that nobody can run.
var drawings = []string{"mermaid", "text"}

var reason = regexp.MustCompile(`^\(not run: .{10,}\)$`)

// problem says what is wrong with a sample: nobody runs it, and it does not say why.
func (s sample) problem() string {
	switch {
	case slices.Contains(drawings, s.language):
		return ""
	case s.note != "" && !reason.MatchString(s.note):
		return "the words after the language are not a reason of the form (not run: REASON)"
	case s.note == "" && claimOf(s) == nil:
		return "no test runs it; let one claim it, or write why none can: ```" + s.language + " (not run: REASON)"
	}
	return ""
}

// Each sample is run by a test, or says at its fence why it cannot be.
func TestEverySampleIsRun(t *testing.T) {
	t.Parallel()
	for _, s := range samples(t) {
		if problem := s.problem(); problem != "" {
			t.Errorf("%s:%d: %s", s.document, s.line, problem)
		}
	}
	for _, s := range samplesIn(t, "x.md", "```cobol\n```\n```sh once\n```\n```\n```\n") {
		if s.problem() == "" {
			t.Errorf("a sample in %q with the note %q counts as run", s.language, s.note)
		}
	}
	sources := ""
	for _, pattern := range []string{"*_test.go", "../e2e/migrate*_test.go", "../e2e/connector_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sources += string(text)
		}
	}
	for _, c := range claims {
		if file, name, elsewhere := strings.Cut(c.test, " "); elsewhere &&
			!strings.Contains(read(t, file), "func "+name+"(") {
			t.Errorf("%s has no %s", file, name)
		} else if !elsewhere && !strings.Contains(sources, "claimed(t, \""+c.test+"\")") &&
			!strings.Contains(sources, "func "+c.test+"(") {
			t.Errorf("%s does not ask for its samples", c.test)
		}
		if !slices.ContainsFunc(samples(t), func(s sample) bool {
			return s.note == "" && claimOf(s) != nil && claimOf(s).test == c.test
		}) {
			t.Errorf("no document has a sample for %s", c.test)
		}
	}
	// The migrations name each of their blocks by its first line.
	for _, s := range samplesIn(t, "docs/migrating.md", read(t, "docs/migrating.md")) {
		name, _, _ := strings.Cut(s.text, "\n")
		if name = strings.TrimLeft(name, "-# "); s.note == "" && !strings.Contains(sources, `"`+name+`"`) {
			t.Errorf("docs/migrating.md:%d: no test of test/e2e takes the block %q", s.line, name)
		}
	}
}

func read(t *testing.T, document string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", document))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The figures on the first screen of the README are those of the benchmark.
func TestFigures(t *testing.T) {
	t.Parallel()
	_, why, found := strings.Cut(read(t, "README.md"), "**Why this one**")
	why, _, closed := strings.Cut(why, "```mermaid")
	if !found || !closed {
		t.Fatal("the README does not say why")
	}
	measured := read(t, "test/bench/README.md")
	figures := regexp.MustCompile(`\d+(,\d{3})+|\d+(\.\d+)? (MiB|%|ms)`).FindAllString(why, -1)
	if len(figures) < 6 {
		t.Errorf("only the figures %q", figures)
	}
	for _, figure := range figures {
		number, _, _ := strings.Cut(figure, " ")
		if !regexp.MustCompile(`(^|[^\d.,])` + regexp.QuoteMeta(number) + `($|[^\d])`).MatchString(measured) {
			t.Errorf("test/bench/README.md does not have %s", figure)
		}
	}
}
