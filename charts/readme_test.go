package charts

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// The chart's README has a row for every value.
func TestReadmeNamesEveryValue(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("outbox-relay/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict(text, &values); err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("outbox-relay/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tables, _ := strings.Cut(string(readme), "## Values")
	for name, value := range values {
		if strings.Contains(tables, "`"+name+"`") {
			continue
		}
		group, _ := value.(map[string]any)
		if len(group) == 0 {
			t.Errorf("README.md does not name the value %s", name)
		}
		for sub := range group {
			if !strings.Contains(tables, "`"+name+"."+sub+"`") {
				t.Errorf("README.md does not name the value %s.%s", name, sub)
			}
		}
	}
}

// The README's example values for alerts, dashboard, network and old rows can be rendered.
func TestReadmeValues(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("outbox-relay/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(readme), "\n## Alerts, dashboard, network, old rows\n\n```yaml\n")
	values, _, found := strings.Cut(section, "```")
	if !found {
		t.Fatal("README.md has no such section")
	}
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	rendered, err := helm(t, "template", "shop", "outbox-relay", "--values", "outbox-relay/ci/minimal-values.yaml",
		"--values", file)
	if err != nil {
		t.Fatal(err)
	}
	all := decode(t, rendered)
	if len(all.rules) != 1 || len(all.configMaps) != 1 || len(all.policies) != 1 || len(all.cronJobs) != 1 {
		t.Errorf("something is missing:\n%s", rendered)
	}
}

// The README's samples for an application's chart, and its values for a relay of its own, can be rendered: with the
// dependency fetched by helm dependency update as the README says, from a package in place of a registry.
func TestReadmeSamples(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("outbox-relay/README.md")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	chart, err := filepath.Abs("outbox-relay")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: orders\nversion: 1.0.0\n", "values.yaml": "",
		"templates/deployment.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: orders}\nspec:\n" +
			"  selector: {matchLabels: {app: orders}}\n  template:\n    metadata: {labels: {app: orders}}\n    spec:\n",
	}
	written := 0
	for _, match := range regexp.MustCompile("(?s)```yaml\n# ([^\\s,]+)[^\n]*\n(.*?)```").FindAllStringSubmatch(
		string(text), -1) {
		head, known := names[match[1]]
		if !known {
			t.Errorf("no test knows the sample of %s", match[1])
		}
		sample := strings.ReplaceAll(match[2], "oci://registry.example.com/charts", "file://"+chart)
		sample = strings.ReplaceAll(sample, "# the application", "- {name: orders, image: orders}")
		file := filepath.Join(folder, match[1])
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(head+sample), 0o600); err != nil {
			t.Fatal(err)
		}
		written++
	}
	if written != len(names) {
		t.Fatalf("the README has %d of the samples %v", written, names)
	}
	if _, err := helm(t, "template", "orders", folder); err == nil {
		t.Error("nothing says that helm dependency update is necessary")
	}
	if _, err := helm(t, "dependency", "update", folder); err != nil {
		t.Fatal(err)
	}
	rendered, err := helm(t, "template", "orders", folder, "--kube-version", "1.34.0")
	if err != nil {
		t.Fatal(err)
	}
	if pods := decode(t, rendered).deployments; len(pods) != 1 || len(pods[0].Spec.Template.Spec.InitContainers) != 1 ||
		len(pods[0].Spec.Template.Spec.Volumes) == 0 {
		t.Errorf("the application has no sidecar with its files:\n%s", rendered)
	}

	_, values, found := strings.Cut(string(text), "<<YAML\n")
	values, _, closed := strings.Cut(values, "\nYAML\n")
	if !found || !closed {
		t.Fatal("the README has no values for a relay of its own")
	}
	file := filepath.Join(folder, "standalone.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := helm(t, "template", "orders-relay", "outbox-relay", "--values", file); err != nil {
		t.Error(err)
	}
}
