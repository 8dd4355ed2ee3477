package charts

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// Helm 3 renders every scenario like Helm 4, which the other tests run, and refuses values for the same reasons.
func TestHelm3(t *testing.T) {
	t.Parallel()
	const kubernetes = "1.34.0" // a plain build of Helm 3 assumes an older version
	files, err := filepath.Glob("outbox-relay/ci/*-values.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		args := []string{
			"template", "shop", "outbox-relay", "--namespace", "orders", "--values", file, "--kube-version",
			kubernetes,
		}
		three, err := helmOf(t, "helm3", args...)
		if err != nil {
			t.Fatal(err)
		}
		four, err := helm(t, args...)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(decode(t, three), decode(t, four)) {
			t.Errorf("%s: Helm 3 renders\n%s\nHelm 4 renders\n%s", file, three, four)
		}
	}
	app := exampleApp(t)
	three, err := helmOf(t, "helm3", "template", "orders", app, "--kube-version", kubernetes)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "example-app", three)
	for set, want := range map[string]string{
		"image.repository=": "image.repository is missing", "settings.OUTBOX_TABEL=x": "OUTBOX_TABEL",
		"terminationGracePeriodSeconds=25": "OUTBOX_SHUTDOWN_TIMEOUT", "replica=3": "replica",
	} {
		args := append([]string{"template", "shop", "outbox-relay", "--kube-version", kubernetes}, minimal...)
		if _, err := helmOf(t, "helm3", append(args, set)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, which does not say %q", set, err, want)
		}
	}
}
