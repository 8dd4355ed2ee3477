package examples

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// docs/doctor.md explains each check of doctor in the part of its broker, or of all brokers, and no others.
func TestDoctor(t *testing.T) {
	t.Parallel()
	text := read(t, "docs/doctor.md")
	common, brokers, found := strings.Cut(text, "\n### Kafka\n")
	if !found {
		t.Fatal("docs/doctor.md has no part about Kafka")
	}
	kafka, brokers, _ := strings.Cut(brokers, "\n### NATS\n")
	nats, rabbit, _ := strings.Cut(brokers, "\n### RabbitMQ\n")
	var all []string
	for directory, part := range map[string]string{
		"cli/doctor.go": common, "internal/doctor/*.go": common, "internal/outbox/*.go": common + nats,
		"internal/inspect/*.go":       common,
		"publisher/kafka/examine*.go": common + kafka, "publisher/nats/examine*.go": common + nats,
		"publisher/amqp/examine*.go": common + rabbit,
	} {
		for check, place := range checks(t, directory) {
			all = append(all, check)
			if !strings.Contains(part, "\n| `"+check+"` | ") {
				t.Errorf("docs/doctor.md lacks the check of %s: %s", place, check)
			}
		}
	}
	_, tables, _ := strings.Cut(text, "\n## Settings\n")
	for _, line := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(tables, -1) {
		if !slices.Contains(all, line[1]) {
			t.Errorf("docs/doctor.md has a check that the program has not: %s", line[1])
		}
	}
}

// named matches the names of constants and variables that hold the name of a check.
var named = regexp.MustCompile(`^(check([A-Z].*)?|Check|Reach|Authentication)$`)

// checks returns the names of checks in the files that match a pattern, with the place of each.
func checks(t *testing.T, pattern string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../../" + pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files %s (%v)", pattern, err)
	}
	found, files := map[string]string{}, token.NewFileSet()
	add := func(names, values []ast.Expr) {
		for i := range min(len(names), len(values)) {
			name, is := names[i].(*ast.Ident)
			value, literal := values[i].(*ast.BasicLit)
			if !is || !literal || !named.MatchString(name.Name) || value.Kind != token.STRING {
				continue
			}
			if text, err := strconv.Unquote(value.Value); err == nil {
				found[text] = files.Position(value.Pos()).String()
			}
		}
	}
	check := ast.NewIdent("check")
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for _, name := range n.Names {
					add([]ast.Expr{name}, n.Values)
				}
			case *ast.AssignStmt:
				add(n.Lhs, n.Rhs)
			case *ast.KeyValueExpr:
				add([]ast.Expr{n.Key}, []ast.Expr{n.Value})
			case *ast.FuncDecl:
				if n.Name.Name == "refused" {
					returned(n, func(value ast.Expr) { add([]ast.Expr{check}, []ast.Expr{value}) })
				}
			case *ast.CallExpr:
				if reports(n.Fun) && len(n.Args) > 1 {
					add([]ast.Expr{check}, n.Args[:1])
				}
			}
			return true
		})
	}
	return found
}

// reports reports whether a function receives the name of a check first.
func reports(function ast.Expr) bool {
	switch f := function.(type) {
	case *ast.Ident:
		return slices.Contains([]string{"ok", "warning", "failure", "unreadable"}, f.Name)
	case *ast.SelectorExpr:
		x, is := f.X.(*ast.Ident)
		return is && (x.Name == "e" || x.Name == "f") &&
			slices.Contains([]string{"ok", "warn", "add", "Well", "Warn", "Fail", "Add"}, f.Sel.Name)
	}
	return false
}

// returned gives the first result of each return of a function.
func returned(f *ast.FuncDecl, give func(ast.Expr)) {
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if r, is := n.(*ast.ReturnStmt); is && len(r.Results) > 0 {
			give(r.Results[0])
		}
		return true
	})
}
