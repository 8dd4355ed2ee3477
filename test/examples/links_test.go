package examples

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	target  = regexp.MustCompile(`(?m)^make +([a-z0-9-]+)`)
	unslug  = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// more are documents with links that are not for users.
var more = []string{"CHANGELOG.md", "CONTRIBUTING.md", "ROADMAP.md", "SECURITY.md", "dev/tools/README.md"}

// Links inside the repository lead to a file, and to a heading in it.
func TestLinks(t *testing.T) {
	t.Parallel()
	for _, document := range append(documents(t), more...) {
		text := read(t, document)
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(match[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(match[1], "#")
			in := document
			if path != "" {
				in = filepath.Join(filepath.Dir(document), path)
			}
			if _, err := os.Stat(filepath.Join("../..", in)); err != nil {
				t.Errorf("%s links to %s, which is not there", document, match[1])
			} else if anchor != "" && !anchors(read(t, in))[anchor] {
				t.Errorf("%s links to %s, but %s has no such heading", document, match[1], in)
			}
		}
	}
}

// The make targets that documents name exist in the Makefile.
func TestTargets(t *testing.T) {
	t.Parallel()
	makefile := read(t, "Makefile")
	for _, sample := range samples(t) {
		for _, match := range target.FindAllStringSubmatch(sample.text, -1) {
			if !strings.Contains(makefile, "\n"+match[1]+":") {
				t.Errorf("a document says to run make %s, which the Makefile lacks", match[1])
			}
		}
	}
}

// anchors returns the headings in the form in which links name them.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(text, -1) {
		all[strings.ReplaceAll(unslug.ReplaceAllString(strings.ToLower(match[1]), ""), " ", "-")] = true
	}
	return all
}
