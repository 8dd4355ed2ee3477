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
		"docs/consumers.md": {"test/examples/consume.go"},
		"docs/embedding.md": {"relay/example_test.go", "test/examples/ownbroker/main.go"},
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
