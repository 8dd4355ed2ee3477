package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rhysd/actionlint"
	"sigs.k8s.io/yaml"
)

const workflows = "../../.github/workflows/"

// The workflows are valid, use only pinned actions, and call only targets that exist.
func TestWorkflows(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	linter, err := actionlint.NewLinter(&said, &actionlint.LinterOptions{WorkingDir: "../.."})
	if err != nil {
		t.Fatal(err)
	}
	if problems, err := linter.LintDir(workflows, nil); err != nil || len(problems) > 0 {
		t.Errorf("%v\n%s", err, said.String())
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(workflows + "*.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no workflows: %v", err)
	}
	pinned := regexp.MustCompile(`uses: (\./|[\w-]+/[\w-]+(/[\w-]+)?@[0-9a-f]{40} # v[0-9]+\.[0-9]+\.[0-9]+$)`)
	targets := regexp.MustCompile(`\bmake ([a-z0-9-]+)|\btarget: \[(.*)\]`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if strings.Contains(line, "uses: ") && !pinned.MatchString(line) {
				t.Errorf("%s: %q names no commit, with its version as a comment", file, line)
			}
			if strings.HasPrefix(line, "#") {
				continue
			}
			for _, match := range targets.FindAllStringSubmatch(line, -1) {
				for target := range strings.SplitSeq(match[1]+match[2], ",") {
					target, _, _ = strings.Cut(strings.TrimSpace(target), " ") // the rest are variables
					if !strings.Contains(string(makefile), "\n"+target+":") {
						t.Errorf("%s calls make %s, which does not exist", file, target)
					}
				}
			}
		}
	}
}

// Dependabot checks every folder that has a go.mod.
func TestUpdates(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../.github/dependabot.yml")
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Updates []struct {
			Ecosystem   string `json:"package-ecosystem"`
			Directories []string
		}
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	watched := map[string]bool{}
	for _, update := range config.Updates {
		for _, directory := range update.Directories {
			found, err := filepath.Glob(filepath.Join("../..", directory, "go.mod"))
			if err != nil || len(found) == 0 {
				t.Errorf("%s has no go.mod: %v", directory, err)
			}
			for _, file := range found {
				watched[file] = true
			}
		}
	}
	var modules []string
	if err := filepath.WalkDir("../..", func(path string, entry os.DirEntry, err error) error {
		if entry != nil && entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && entry.Name() != ".." {
			return filepath.SkipDir
		}
		if err == nil && entry.Name() == "go.mod" {
			modules = append(modules, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, module := range modules {
		if !watched[module] && !strings.Contains(module, "/testdata/") {
			t.Errorf("nobody watches %s; watched are %v", module, slices.Sorted(maps.Keys(watched)))
		}
	}
}

// The forms and settings of the repository can be read, and name what exists.
func TestRepositoryFiles(t *testing.T) {
	t.Parallel()
	var files []string
	for _, pattern := range []string{"ISSUE_TEMPLATE/*.yml", "DISCUSSION_TEMPLATE/*.yml", "*.yml"} {
		found, err := filepath.Glob("../../.github/" + pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var form map[string]any
		if err := yaml.UnmarshalStrict(text, &form); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	text, err := os.ReadFile("../../.devcontainer/devcontainer.json")
	if err != nil {
		t.Fatal(err)
	}
	var container struct {
		Image           string            `json:"image"`
		ContainerEnv    map[string]string `json:"containerEnv"`
		OnCreateCommand string            `json:"onCreateCommand"`
	}
	comments := regexp.MustCompile(`(?m)(^|\s)//.*$`)
	if err := json.Unmarshal(comments.ReplaceAll(text, nil), &container); err != nil {
		t.Fatal(err)
	}
	script, _, _ := strings.Cut(container.OnCreateCommand, " ")
	if _, err := os.Stat(filepath.Join("../..", script)); err != nil || container.Image == "" {
		t.Errorf("the container %+v runs what does not exist: %v", container, err)
	}
}
