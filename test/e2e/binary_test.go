package e2e

import (
	"os/exec"
	"strings"
	"testing"
)

// TestBinaryWithoutTemplates: templates call methods by their names. If one of the libraries could execute a template,
// the linker would have to keep every exported method, which makes the program a quarter larger.
func TestBinaryWithoutTemplates(t *testing.T) {
	t.Parallel()
	symbols, err := exec.CommandContext(t.Context(), "go", "tool", "nm", binary).Output()
	if err != nil || !strings.Contains(string(symbols), " main.main\n") {
		t.Fatalf("list the symbols: %v", err)
	}
	if strings.Contains(string(symbols), " text/template.(*state).evalField\n") {
		t.Error("templates are linked in; go build -ldflags=-dumpdep shows by what")
	}
}
