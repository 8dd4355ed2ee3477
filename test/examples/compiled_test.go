package examples

import (
	"regexp"
	"strings"
	"testing"
)

var (
	goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")
	indent  = regexp.MustCompile(`(?m)^\s+`)
)

// The Go samples of the documents are part of code that is compiled and tested.
func TestSamplesAreCompiled(t *testing.T) {
	t.Parallel()
	for document, sources := range map[string][]string{
		"docs/consumers.md": {"test/examples/consume.go"},
		"docs/embedding.md": {"relay/example_test.go", "test/examples/ownbroker/main.go"},
	} {
		var code string
		for _, source := range sources {
			code += indent.ReplaceAllString(read(t, source), "")
		}
		found := goBlock.FindAllStringSubmatch(read(t, document), -1)
		if len(found) == 0 {
			t.Errorf("%s has no sample", document)
		}
		for _, match := range found {
			if !strings.Contains(code, indent.ReplaceAllString(match[1], "")) {
				t.Errorf("%s: none of %q has this:\n%s", document, sources, match[1])
			}
		}
	}
}
