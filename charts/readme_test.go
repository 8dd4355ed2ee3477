package charts

import (
	"os"
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
