package charts

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// helm runs the pinned helm and returns its standard output. The error of a failure contains its message.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return helmOf(t, "helm", args...)
}

// helmOf is helm with one of the pinned versions: helm, which is Helm 4, or helm3.
func helmOf(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	binary, err := filepath.Abs("../bin/" + name)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(binary, args...)
	home := t.TempDir() // without the user's repositories and plugins
	command.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err = command.Run()
	if errors.Is(err, os.ErrNotExist) {
		t.Fatalf("%s is missing: run make test-chart", binary)
	}
	if err != nil {
		err = errors.New(stderr.String() + stdout.String())
	}
	return stdout.String(), err
}

// compare compares rendered text with testdata/NAME.yaml.
func compare(t *testing.T, name, rendered string) {
	t.Helper()
	golden := filepath.Join("testdata", name+".yaml")
	if *update {
		if err := os.WriteFile(golden, []byte(rendered), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if rendered == string(want) {
		return
	}
	got := filepath.Join(t.TempDir(), "rendered.yaml")
	if err := os.WriteFile(got, []byte(rendered), 0o600); err != nil {
		t.Fatal(err)
	}
	diff, _ := exec.Command("diff", "-u", golden, got).CombinedOutput() // exits with 1 if they differ
	t.Errorf("the chart renders something else than %s (go test -update writes it again):\n%s", golden, diff)
}
