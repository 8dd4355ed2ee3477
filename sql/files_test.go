package sql

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each statement that the program names is in this folder: a name without a file panics, in the field where no test
// sends it.
func TestNamedStatementsExist(t *testing.T) {
	t.Parallel()
	named := regexp.MustCompile(`(?:Text|text|script|query)\(.*"([a-z_]+\.sql)"|"([a-z_]+\.sql)"[,:)]`)
	found := 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != ".." {
			return filepath.SkipDir // such as the data of running services, which come and go
		}
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") ||
			strings.HasPrefix(path, "../test/") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, name := range named.FindAllStringSubmatch(string(text), -1) {
			found++
			if _, err := files.ReadFile(name[1] + name[2]); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		return err
	})
	for _, file := range regexp.MustCompile(`\{([a-z_]+\.sql)\}`).FindAllStringSubmatch(all(t), -1) {
		if _, err := files.ReadFile(file[1]); err != nil {
			t.Error(err)
		}
	}
	if err != nil || found < 50 {
		t.Errorf("%d names of statements, %v", found, err)
	}
}

// all returns the texts of all statements.
func all(t *testing.T) (texts string) {
	t.Helper()
	entries, err := files.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		text, err := files.ReadFile(entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		texts += string(text)
	}
	return texts
}
