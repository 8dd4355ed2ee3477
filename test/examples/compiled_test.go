package examples

import (
	"regexp"
	"strings"
	"testing"
)

var indent = regexp.MustCompile(`(?m)^\s+`)

// The Go samples of the documents are part of code that is compiled and tested.
func TestSamplesAreCompiled(t *testing.T) {
	t.Parallel()
	claimedHere := claimed(t, "TestSamplesAreCompiled")
	for document, sources := range map[string][]string{
		"docs/embedding.md": {"relay/example_test.go", "test/examples/embedded/main.go", "test/examples/ownbroker/main.go"},
	} {
		var code string
		for _, source := range sources {
			code += indent.ReplaceAllString(read(t, source), "")
		}
		for _, sample := range claimedHere {
			if sample.document == document && !strings.Contains(code, indent.ReplaceAllString(sample.text, "")) {
				t.Errorf("%s:%d: none of %q has this:\n%s", document, sample.line, sources, sample.text)
			}
		}
	}
}

// A Go sample that is a whole file, but for the name of its package, is a file of this package, which is compiled and
// tested.
func TestFilesAreCompiled(t *testing.T) {
	t.Parallel()
	for _, sample := range claimed(t, "TestFilesAreCompiled") {
		file := map[string]string{"docs/consumers.md": "consume.go", "docs/testing.md": "orders_test.go"}[sample.document]
		if read(t, "test/examples/"+file) != "package examples\n\n"+sample.text {
			t.Errorf("%s:%d is not test/examples/%s", sample.document, sample.line, file)
		}
	}
}

// The lines of use in the documentation of package relay are compiled and tested, too.
func TestPackageCommentIsCompiled(t *testing.T) {
	t.Parallel()
	code := indent.ReplaceAllString(read(t, "relay/example_test.go"), "")
	var shown strings.Builder
	for line := range strings.Lines(read(t, "relay/doc.go")) {
		if code, isCode := strings.CutPrefix(line, "//\t"); isCode {
			shown.WriteString(code)
		}
	}
	if shown.Len() == 0 || !strings.Contains(code, indent.ReplaceAllString(shown.String(), "")) {
		t.Errorf("relay/example_test.go does not have the lines of relay/doc.go:\n%s", shown.String())
	}
}
