package licenses

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the licences again, from the module cache")

// linked is a package of the program, as go list shows it.
type linked struct {
	Dir, ImportPath string
	Standard        bool
	Module          *struct {
		Path, Version, Dir string
		Main               bool
	}
}

// packages lists the packages that are linked into the released program.
func packages(t *testing.T) []linked {
	t.Helper()
	return append(packagesFor(t, "amd64"), packagesFor(t, "arm64")...)
}

func packagesFor(t *testing.T, architecture string) (all []linked) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=Dir,ImportPath,Standard,Module", "-tags",
		"grpcnotrace", "../..")
	list.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+architecture, "CGO_ENABLED=0")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p linked
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

var legal = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying|notice|patents)[^/]*$`)

// texts returns the legal files from a folder up to the module's own.
func texts(t *testing.T, folder, module string) (found []string) {
	t.Helper()
	for ; strings.HasPrefix(folder, module); folder = filepath.Dir(folder) {
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Type().IsRegular() && legal.MatchString(e.Name()) && filepath.Ext(e.Name()) != ".go" {
				content, err := os.ReadFile(filepath.Join(folder, e.Name()))
				if err != nil {
					t.Fatal(err)
				}
				found = append(found, strings.TrimSpace(strings.ReplaceAll(string(content), "\r\n", "\n")))
			}
		}
	}
	return found
}

// compose writes each text once, below the modules that have it.
func compose(t *testing.T) string {
	t.Helper()
	by := map[string]map[string]bool{} // modules by text
	add := func(text, module string) {
		if by[text] == nil {
			by[text] = map[string]bool{}
		}
		by[text][module] = true
	}
	bare := map[string]bool{}
	for _, p := range packages(t) {
		switch {
		case p.Standard:
			continue
		case p.Module.Main:
			continue // its licence is the first text
		}
		name := p.Module.Path + " " + p.Module.Version
		found := texts(t, p.Dir, p.Module.Dir)
		for _, text := range found {
			add(text, name)
		}
		if len(found) == 0 {
			bare[name] = true
		}
	}
	if len(bare) > 0 {
		t.Fatalf("modules without a licence: %v", slices.Sorted(maps.Keys(bare)))
	}
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	goroot := strings.TrimSpace(string(root))
	for _, text := range texts(t, goroot, goroot) {
		add(text, "Go's standard library and runtime")
	}
	own := texts(t, "../..", "../..")
	if len(own) != 1 {
		t.Fatalf("the program has %d licences", len(own))
	}
	type part struct {
		text    string
		modules []string
	}
	var parts []part
	for text, modules := range by {
		parts = append(parts, part{text, slices.Sorted(maps.Keys(modules))})
	}
	slices.SortFunc(parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(a.modules[0], b.modules[0]), cmp.Compare(a.text, b.text))
	})
	var out strings.Builder
	line := strings.Repeat("=", 80)
	fmt.Fprintf(&out, "outbox-relay\n\n%s\n", own[0])
	for _, p := range parts {
		fmt.Fprintf(&out, "\n%s\n%s\n\n%s\n", line, strings.Join(p.modules, "\n"), p.text)
	}
	return out.String()
}

// Each linked module is listed, with its licence and its version.
func TestEveryModuleIsThere(t *testing.T) {
	t.Parallel()
	want := compose(t)
	if *update {
		if err := os.WriteFile("licenses.txt", []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, p := range packages(t) {
		if p.Module != nil && !p.Module.Main && !strings.Contains(Text, "\n"+p.Module.Path+" "+p.Module.Version+"\n") {
			t.Fatalf("%s %s is linked in and its licence is not there: go test ./internal/licenses -update", p.Module.Path,
				p.Module.Version)
		}
	}
	if Text != want {
		t.Error("licenses.txt is out of date: go test ./internal/licenses -update")
	}
}
