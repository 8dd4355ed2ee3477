package controlplane

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// This is the life of the example application, whose chart has the relay's as a dependency.
func testSidecar(t *testing.T, cluster *Cluster, version string) {
	t.Helper()
	s := newSpace(t, cluster, version+"-sidecar")
	before := s.contents(t)
	h := newHelm(t, cluster, version, s.name)
	app := exampleApp(t, h)
	h.install(t, app)
	for _, pod := range s.pods(t) {
		relay := pod.Spec.InitContainers
		if len(relay) != 1 || relay[0].RestartPolicy == nil ||
			*relay[0].RestartPolicy != corev1.ContainerRestartPolicyAlways {
			t.Errorf("%s has no native sidecar: %+v", pod.Name, relay)
		}
	}
	watched := filepath.Join(t.TempDir(), "values.yaml") // enables the objects that the chart can deploy in addition
	if err := os.WriteFile(watched, []byte(`
outbox-relay:
  podMonitor: {enabled: true, selector: {app.kubernetes.io/name: orders}}
  prometheusRule: {enabled: true}
  dashboard: {enabled: true}
  prune: {enabled: true}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	s.keepsReady(t, 2, func() {
		h.upgrade(t, app, "--values", watched, "--set", "outbox-relay.settings.OUTBOX_BATCH_SIZE=500")
	})
	s.testPrune(t)
	s.keepsReady(t, 2, func() { s.restart(t, "2026-01-01T00:00:00Z") })
	s.drain(t, true)

	s.keepsReady(t, 2, func() { h.upgrade(t, app, "--values", watched, "--set", "outbox-relay.sidecar.native=false") })
	for _, pod := range s.pods(t) {
		if len(pod.Spec.InitContainers) != 0 || len(pod.Spec.Containers) != 2 {
			t.Errorf("%s has no classic sidecar beside the application: %+v", pod.Name, pod.Spec)
		}
	}
	s.keepsReady(t, 2, func() { h.run(t, "rollback", release, "1", "--wait", "--timeout", "60s") })
	s.uninstall(t, h, before)
}

// exampleApp copies the example application's chart and fetches its dependency.
func exampleApp(t *testing.T, h helm) string {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{"outbox-relay", "example-app"} {
		if err := os.CopyFS(filepath.Join(folder, name), os.DirFS(filepath.Join("../../charts", name))); err != nil {
			t.Fatal(err)
		}
	}
	app := filepath.Join(folder, "example-app")
	h.run(t, "dependency", "update", app)
	return app
}
