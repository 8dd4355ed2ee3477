package charts

import (
	"os"
	"path/filepath"
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
	rendered, err := helm(t, "template", "shop", "outbox-relay", "--values", "outbox-relay/ci/minimal-values.yaml", "--values", file)
	if err != nil {
		t.Fatal(err)
	}
	all := decode(t, rendered)
	if len(all.rules) != 1 || len(all.configMaps) != 1 || len(all.policies) != 1 || len(all.cronJobs) != 1 {
		t.Errorf("something is missing:\n%s", rendered)
	}
}
