package charts

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

var documents = regexp.MustCompile(`(?m)^---$`)

// decode decodes every object strictly, so that a field that Kubernetes does not know or that is
// there twice fails, and returns the deployments.
func decode(t *testing.T, rendered string) []appsv1.Deployment {
	t.Helper()
	deployments, _ := decodeAll(t, rendered)
	return deployments
}

// decodeAll is decode that returns the pods, which are tests, as well.
func decodeAll(t *testing.T, rendered string) (deployments []appsv1.Deployment, pods []corev1.Pod) {
	t.Helper()
	for _, text := range documents.Split(rendered, -1) {
		var kind struct{ Kind string }
		if err := yaml.Unmarshal([]byte(text), &kind); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		var object any
		switch kind.Kind {
		case "":
			continue
		case "Deployment":
			object = &appsv1.Deployment{}
		case "PodDisruptionBudget":
			object = &policyv1.PodDisruptionBudget{}
		case "Pod":
			object = &corev1.Pod{}
		case "Service":
			object = &corev1.Service{}
		case "ServiceAccount":
			object = &corev1.ServiceAccount{}
		case "PodMonitor", "ServiceMonitor": // of the Prometheus Operator
			object = &map[string]any{}
		default:
			t.Fatalf("the chart renders a %s, which no test knows", kind.Kind)
		}
		if err := yaml.UnmarshalStrict([]byte(text), object); err != nil {
			t.Errorf("%s: %v", kind.Kind, err)
		}
		switch object := object.(type) {
		case *appsv1.Deployment:
			deployments = append(deployments, *object)
		case *corev1.Pod:
			pods = append(pods, *object)
		}
	}
	return deployments, pods
}

// checkContainer checks what holds for the relay's container in both modes.
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

// checkRestricted checks the restricted Pod Security Standard, and the read-only root besides.
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
