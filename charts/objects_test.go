package charts

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

var documents = regexp.MustCompile(`(?m)^---$`)

// objects are the objects that a chart renders, by kind.
type objects struct {
	deployments []appsv1.Deployment
	budgets     []policyv1.PodDisruptionBudget
	pods        []corev1.Pod // test pods
	cronJobs    []batchv1.CronJob
	policies    []networkingv1.NetworkPolicy
	configMaps  []corev1.ConfigMap
	rules       []prometheusRule
}

// prometheusRule is the part of a PrometheusRule of the Prometheus Operator that the chart fills in.
type prometheusRule struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   metav1.ObjectMeta `json:"metadata"`
	Spec       ruleFile          `json:"spec"`
}

// decode decodes every object strictly: unknown and duplicate fields fail.
func decode(t *testing.T, rendered string) (all objects) {
	t.Helper()
	for _, text := range documents.Split(rendered, -1) {
		var kind struct{ Kind string }
		if err := yaml.Unmarshal([]byte(text), &kind); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		switch kind.Kind {
		case "":
		case "Deployment":
			all.deployments = add(t, text, all.deployments)
		case "PodDisruptionBudget":
			all.budgets = add(t, text, all.budgets)
		case "Pod":
			all.pods = add(t, text, all.pods)
		case "CronJob":
			all.cronJobs = add(t, text, all.cronJobs)
		case "NetworkPolicy":
			all.policies = add(t, text, all.policies)
		case "ConfigMap":
			all.configMaps = add(t, text, all.configMaps)
		case "PrometheusRule":
			all.rules = add(t, text, all.rules)
		case "Service":
			add(t, text, []corev1.Service{})
		case "ServiceAccount":
			add(t, text, []corev1.ServiceAccount{})
		case "PodMonitor", "ServiceMonitor": // of the Prometheus Operator
			add(t, text, []map[string]any{})
		default:
			t.Fatalf("the chart renders a %s, which no test knows", kind.Kind)
		}
	}
	return all
}

func add[T any](t *testing.T, text string, to []T) []T {
	t.Helper()
	var object T
	if err := yaml.UnmarshalStrict([]byte(text), &object); err != nil {
		t.Errorf("%v in\n%s", err, text)
	}
	return append(to, object)
}

// checkContainer checks the properties that the relay's container has in both modes.
func checkContainer(t *testing.T, c corev1.Container, volumes []corev1.Volume) {
	t.Helper()
	names := map[string]bool{}
	for _, variable := range c.Env {
		if names[variable.Name] {
			t.Errorf("%s is in env twice: a server-side apply refuses that", variable.Name)
		}
		names[variable.Name] = true
	}
	for _, port := range c.Ports {
		if len(port.Name) > 15 {
			t.Errorf("port name %s has more than 15 characters", port.Name)
		}
	}
	if c.LivenessProbe == nil || c.LivenessProbe.HTTPGet.Path != "/livez" {
		t.Errorf("liveness probe is %v, want /livez, which no outage fails", c.LivenessProbe)
	}
	checkRestricted(t, c.SecurityContext)
	checkMounts(t, c, volumes)
}

// checkMounts checks that every mounted volume exists.
func checkMounts(t *testing.T, c corev1.Container, volumes []corev1.Volume) {
	t.Helper()
	present := map[string]bool{}
	for _, volume := range volumes {
		present[volume.Name] = true
	}
	for _, mount := range c.VolumeMounts {
		if !present[mount.Name] {
			t.Errorf("volume %s is mounted and not there", mount.Name)
		}
	}
}

// checkRestricted checks the restricted Pod Security Standard, and the read-only root file system.
func checkRestricted(t *testing.T, s *corev1.SecurityContext) {
	t.Helper()
	switch {
	case s == nil:
		t.Error("no security context")
	case s.RunAsNonRoot == nil || !*s.RunAsNonRoot, s.RunAsUser == nil || *s.RunAsUser != 65532:
		t.Error("does not run as the user 65532")
	case s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation:
		t.Error("privilege escalation is allowed")
	case s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem:
		t.Error("the root file system can be written")
	case s.Capabilities == nil || len(s.Capabilities.Drop) != 1 || s.Capabilities.Drop[0] != "ALL":
		t.Error("not all capabilities are dropped")
	case s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault:
		t.Error("the seccomp profile is not the runtime's")
	}
}

// exampleApp copies the example application's chart and fetches its dependency.
func exampleApp(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for _, chart := range []string{"outbox-relay", "example-app"} {
		if err := os.CopyFS(filepath.Join(folder, chart), os.DirFS(chart)); err != nil {
			t.Fatal(err)
		}
	}
	app := filepath.Join(folder, "example-app")
	if _, err := helm(t, "dependency", "update", app); err != nil {
		t.Fatal(err)
	}
	return app
}

func replaceIn(t *testing.T, file, old, new string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		t.Fatalf("%s does not contain %q", file, old)
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), old, new)), 0o600); err != nil {
		t.Fatal(err)
	}
}
