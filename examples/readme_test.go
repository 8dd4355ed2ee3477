package examples

import (
	"os"
	"strings"
	"testing"
)

// A block is a fenced block of the README.
type block struct {
	language string
	text     string
}

// readme returns the README and its fenced blocks.
func readme(t *testing.T) (text string, all []block) {
	t.Helper()
	content, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	open := false
	for line := range strings.Lines(string(content)) {
		indented := strings.TrimSpace(line)
		switch language, fence := strings.CutPrefix(indented, "```"); {
		case fence && !open:
			open = true
			all = append(all, block{language: language})
		case fence:
			open = false
		case open:
			all[len(all)-1].text += line
		}
	}
	if open {
		t.Fatal("README.md: a fence is not closed")
	}
	return string(content), all
}

// blocks returns the texts of the blocks in a language, of which there must be some.
func blocks(t *testing.T, language string) (texts []string) {
	t.Helper()
	_, all := readme(t)
	for _, b := range all {
		if b.language == language {
			texts = append(texts, b.text)
		}
	}
	if texts == nil {
		t.Fatalf("README.md has no block in %s", language)
	}
	return texts
}

// Each block says what it is, so that none escapes the tests by accident.
func TestLanguages(t *testing.T) {
	t.Parallel()
	known := []string{"sh", "sql", "go", "java", "python", "js", "elixir", "yaml", "dotenv", "console", "mermaid", "text"}
	_, all := readme(t)
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
