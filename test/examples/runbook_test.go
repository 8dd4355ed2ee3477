package examples

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// messages returns the texts of all WARN and ERROR log lines of the program, with the place of each.
func messages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	others := regexp.MustCompile(
		`^\.\./\.\./(charts|dev|test|publisher/publishertest|internal/pgtest|internal/services|\.[a-z]+)$`)
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && others.MatchString(path):
			return filepath.SkipDir
		case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, is := n.(*ast.CallExpr)
			if !is || len(call.Args) == 0 {
				return true
			}
			if s, is := call.Fun.(*ast.SelectorExpr); is && (s.Sel.Name == "Warn" || s.Sel.Name == "Error") && logs(s.X) {
				if text, known := literal(call.Args[0]); known {
					found[text] = files.Position(call.Pos()).String()
				} else {
					t.Errorf("%s: the message is not a text that can be looked up", files.Position(call.Pos()))
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// logs reports whether an expression has the name of a logger.
func logs(e ast.Expr) bool {
	name := ""
	switch e := e.(type) {
	case *ast.Ident:
		name = e.Name
	case *ast.SelectorExpr:
		name = e.Sel.Name
	}
	return name == "log" || name == "logger" || name == "Logger"
}

// literal returns the text of a string literal, or of several that are concatenated.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		x, knownX := literal(e.X)
		y, knownY := literal(e.Y)
		return x + y, e.Op == token.ADD && knownX && knownY
	}
	return "", false
}

// The runbook explains each message, and no others.
func TestRunbook(t *testing.T) {
	t.Parallel()
	text, found := read(t, "docs/runbook.md"), messages(t)
	for message, place := range found {
		if !strings.Contains(text, "\n| `"+message+"` |") {
			t.Errorf("docs/runbook.md lacks the message of %s: %s", place, message)
		}
	}
	for _, line := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|([^|]*)\\|([^|]*)\\|$").FindAllStringSubmatch(text,
		-1) {
		if found[line[1]] == "" {
			t.Errorf("docs/runbook.md has a message that the program has not: %s", line[1])
		}
		if strings.TrimSpace(line[3]) == "" {
			t.Errorf("docs/runbook.md does not say what to do at: %s", line[1])
		}
	}
}
