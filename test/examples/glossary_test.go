package examples

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var fileName = regexp.MustCompile("`([a-z]+(?:/[a-z_]+)+\\.[a-z]+|[a-z]+/[a-z]+)`")

// The files that the glossary and the design name exist, and no word has two meanings.
func TestGlossary(t *testing.T) {
	t.Parallel()
	found := 0
	for _, document := range []string{"docs/glossary.md", "docs/design.md"} {
		for _, match := range fileName.FindAllStringSubmatch(read(t, document), -1) {
			found++
			if _, err := os.Stat(filepath.Join("../..", match[1])); err != nil {
				t.Errorf("%s names %s, which is not there", document, match[1])
			}
		}
	}
	if found < 8 {
		t.Errorf("only %d files were looked for", found)
	}
	words := map[string]bool{}
	for line := range strings.Lines(read(t, "docs/glossary.md")) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		for _, word := range strings.Split(cells[1], ",") {
			if word = strings.Trim(word, " *"); words[word] && word != "word" && !strings.HasPrefix(word, "-") {
				t.Errorf("%s stands for two things", word)
			}
			words[word] = true
		}
	}
}
