package examples

import (
	"regexp"
	"strings"
	"testing"
)

var (
	proofs = regexp.MustCompile("`([a-z0-9/]+_test\\.go)`((?:,? Test[A-Za-z0-9]+)+)")
	proof  = regexp.MustCompile("Test[A-Za-z0-9]+")
)

// Each claim of SECURITY.md names a test, and the tests exist.
func TestClaimsAreTested(t *testing.T) {
	t.Parallel()
	text := read(t, "SECURITY.md")
	found := 0
	for _, match := range proofs.FindAllStringSubmatch(text, -1) {
		tests := read(t, match[1])
		for _, name := range proof.FindAllString(match[2], -1) {
			if found++; !strings.Contains(tests, "\nfunc "+name+"(") {
				t.Errorf("SECURITY.md names %s, which %s has not", name, match[1])
			}
		}
	}
	if found != len(proof.FindAllString(text, -1)) {
		t.Errorf("SECURITY.md names %d tests, of which %d have a file", len(proof.FindAllString(text, -1)), found)
	}
	_, table, has := strings.Cut(text, "| who | could | what the relay does | test |\n|---|")
	if !has {
		t.Error("SECURITY.md has no table of claims")
	}
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "| ") && !proofs.MatchString(line) {
			t.Errorf("a claim without a test: %s", line)
		}
	}
}
