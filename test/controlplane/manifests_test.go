package controlplane

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"
)

// The API server accepts every object of every scenario in strict server-side validation, and returns no warning: there
// is no unknown field, no duplicate field, nothing deprecated, and no pod that the restricted Pod Security Standard
// refuses.
func testManifests(t *testing.T, cluster *Cluster) {
	t.Helper()
	s := newSpace(t, cluster, "manifests")
	h := newHelm(t, cluster, "helm", s.name)
	// The account is not one of the rendered objects, which are not kept.
	account := corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "orders-outbox-relay"}}
	if _, err := cluster.Client.CoreV1().ServiceAccounts(s.name).Create(t.Context(), &account,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	rendered := map[string]string{}
	files, err := filepath.Glob(scenarios + "*-values.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		rendered[filepath.Base(file)] = h.run(t, "template", release, chart, "--values", file, "--set",
			"dashboard.enabled=true")
	}
	rendered["example-app"] = h.run(t, "template", release, exampleApp(t, h))
	kustomized, err := os.ReadFile("../../charts/testdata/example-kustomize.yaml") // a test of the charts compares it
	if err != nil {
		t.Fatal(err)
	}
	rendered["example-kustomize"] = string(kustomized)
	for name, text := range rendered {
		for _, problem := range s.apply(t, text) {
			t.Errorf("%s: %v", name, problem)
		}
	}

	const again, limit = "      enableServiceLinks: false\n", "            - name: GOMEMLIMIT\n"
	for name, change := range map[string][2]string{
		"field not declared":         {"terminationGracePeriodSeconds:", "terminationGraceSeconds:"},
		"already set in map":         {again, again + again},
		"duplicate entries":          {limit, limit + "              value: 1GiB\n" + limit},
		"allowPrivilegeEscalation":   {"allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true"},
		"must be no more than 15 ch": {"name: relay-metrics", "name: outbox-relay-metrics"},
	} {
		broken := strings.Replace(rendered["minimal-values.yaml"], change[0], change[1], 1)
		if broken == rendered["minimal-values.yaml"] {
			t.Fatalf("%q is not in the rendered chart", change[0])
		}
		problems := errors.Join(s.apply(t, broken)...)
		if problems == nil || !strings.Contains(problems.Error(), name) {
			t.Errorf("a mistake (%s) is not noticed, or this test says nothing: %v", name, problems)
		}
	}
}

var documents = regexp.MustCompile(`(?m)^---$`)

// apply applies objects without keeping them, and returns every error and every warning.
func (s space) apply(t *testing.T, rendered string) (problems []error) {
	t.Helper()
	var warnings warnings
	config := rest.CopyConfig(s.Config)
	config.WarningHandler = &warnings
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(s.Client.Discovery()))
	strict := metav1.PatchOptions{
		DryRun: []string{metav1.DryRunAll}, FieldManager: "tests",
		FieldValidation: metav1.FieldValidationStrict,
	}
	for _, text := range documents.Split(rendered, -1) {
		var object unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if object.Object == nil {
			continue
		}
		kind := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			t.Fatal(err)
		}
		resource := client.Resource(mapping.Resource).Namespace(s.name)
		if _, err := resource.Patch(t.Context(), object.GetName(), types.ApplyYAMLPatchType, []byte(text),
			strict); err != nil {
			problems = append(problems, err)
		}
	}
	return append(problems, warnings.seen...)
}

// warnings keeps the warnings of the API server.
type warnings struct {
	mu   sync.Mutex
	seen []error
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, errors.New(text))
}

// operator is the module that contains the definitions of PodMonitor, ServiceMonitor and PrometheusRule.
const operator = "github.com/prometheus-operator/prometheus-operator@v0.85.0"

var definitions = []string{"podmonitors", "servicemonitors", "prometheusrules"}

// installDefinitions installs what the chart needs of the Prometheus Operator, and the priority class of
// full-values.yaml.
func installDefinitions(t *testing.T, cluster *Cluster) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", operator).Output()
	if err != nil {
		t.Fatalf("download %s: %v", operator, err)
	}
	var module struct{ Dir string }
	if err := yaml.Unmarshal(out, &module); err != nil {
		t.Fatal(err)
	}
	texts := []string{"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: " +
		"business-critical}\nvalue: 1000\n"}
	for _, name := range definitions {
		text, err := os.ReadFile(filepath.Join(module.Dir, "example/prometheus-operator-crd/monitoring.coreos.com_"+name+
			".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	client, err := dynamic.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(cluster.Client.Discovery()))
	for _, text := range texts {
		var object unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			t.Fatal(err)
		}
		mapping, err := mapper.RESTMapping(object.GroupVersionKind().GroupKind(), object.GroupVersionKind().Version)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Resource(mapping.Resource).Create(t.Context(), &object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	waitForKinds(t, cluster)
}

// waitForKinds waits until the API server serves the kinds that were defined.
func waitForKinds(t *testing.T, cluster *Cluster) {
	t.Helper()
	eventually(t, "the Prometheus Operator's kinds are served", func(context.Context) (bool, any, error) {
		list, err := cluster.Client.Discovery().ServerResourcesForGroupVersion("monitoring.coreos.com/v1")
		if list == nil {
			return false, err, nil
		}
		var names []string
		for _, kind := range list.APIResources {
			names = append(names, kind.Name)
		}
		for _, name := range definitions {
			if !slices.Contains(names, name) {
				return false, names, nil
			}
		}
		return true, names, nil
	})
}
