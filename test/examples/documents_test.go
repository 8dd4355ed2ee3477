package examples

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// guides are the documents for users besides the README.
var guides = []string{
	"docs/alerts.md", "docs/comparison.md", "docs/consumers.md", "docs/deploying.md", "docs/design.md", "docs/doctor.md",
	"docs/embedding.md", "docs/glossary.md", "docs/guarantees.md", "docs/managed-services.md", "docs/metrics.md", "docs/migrating.md",
	"docs/operating.md", "docs/runbook.md", "docs/settings.md", "docs/wire-formats.md", "docs/writing.md",
}

// A block is a fenced block of a document.
type block struct {
	language string
	text     string
}

// sampled are the documents whose blocks are tested here, in this order. The blocks of docs/migrating.md are run by test/e2e,
// and those of docs/alerts.md have a separate test.
var sampled = []string{
	"docs/writing.md", "README.md", "docs/deploying.md", "docs/wire-formats.md", "docs/settings.md", "docs/metrics.md",
	"docs/operating.md", "docs/doctor.md",
	"docs/guarantees.md", "docs/comparison.md", "docs/managed-services.md",
}

// samples returns the fenced blocks of these documents. A block that occurs in two of them counts once.
func samples(t *testing.T) (all []block) {
	t.Helper()
	for _, document := range sampled {
		open := false
		for line := range strings.Lines(read(t, document)) {
			switch language, fence := strings.CutPrefix(strings.TrimSpace(line), "```"); {
			case fence && !open:
				open = true
				all = append(all, block{language: language})
			case fence:
				open = false
				if last := len(all) - 1; slices.Contains(all[:last], all[last]) {
					all = all[:last]
				}
			case open:
				all[len(all)-1].text += line
			}
		}
		if open {
			t.Fatalf("%s: a fence is not closed", document)
		}
	}
	return all
}

// blocks returns the texts of the blocks in a language. There must be at least one.
func blocks(t *testing.T, language string) (texts []string) {
	t.Helper()
	for _, b := range samples(t) {
		if b.language == language {
			texts = append(texts, b.text)
		}
	}
	if texts == nil {
		t.Fatalf("no document has a block in %s", language)
	}
	return texts
}

// No guide is missing from the list.
func TestGuides(t *testing.T) {
	t.Parallel()
	found, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != len(guides) {
		t.Errorf("%d documents below docs, %d in the list", len(found), len(guides))
	}
}

// Each block names its language, so that the tests skip none by accident.
func TestLanguages(t *testing.T) {
	t.Parallel()
	known := []string{"sh", "sql", "go", "java", "python", "js", "elixir", "json", "yaml", "dotenv", "console", "mermaid", "text"}
	all := samples(t)
	for _, b := range all {
		found := false
		for _, language := range known {
			found = found || b.language == language
		}
		if !found {
			t.Errorf("no test knows blocks in %q:\n%s", b.language, b.text)
		}
	}
}
