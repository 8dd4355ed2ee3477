package controlplane

import (
	"context"
	"path/filepath"
	"testing"
	"time"
)

// One control plane serves all tests. They run one after the other, because some of them drain its nodes.
func TestControlPlane(t *testing.T) {
	cluster := &Cluster{}
	t.Cleanup(func() {
		if cluster.programs != nil {
			cluster.Stop()
		}
	})
	binaries, err := filepath.Abs("../../bin/control-plane")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := cluster.Start(t.Context(), binaries, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	t.Logf("the control plane is ready after %s", time.Since(began).Round(time.Millisecond))
	installDefinitions(t, cluster)

	t.Run("manifests", func(t *testing.T) { testManifests(t, cluster) })
	for _, helm := range []string{"helm", "helm3"} {
		t.Run(helm, func(t *testing.T) {
			t.Run("standalone", func(t *testing.T) { testStandalone(t, cluster, helm) })
			t.Run("every value", func(t *testing.T) { testEveryValue(t, cluster, helm) })
			t.Run("sidecar", func(t *testing.T) { testSidecar(t, cluster, helm) })
			t.Run("autoscaled", func(t *testing.T) { testAutoscaled(t, cluster, helm) })
		})
	}
	t.Run("from helm 3 to 4", func(t *testing.T) { testNewerHelm(t, cluster) })
}

// patience is how long tests wait for the work of controllers.
const patience = time.Minute

// eventually waits until a condition holds. If it never does, the last value that the condition returned is reported.
func eventually(t *testing.T, what string, holds func(ctx context.Context) (bool, any, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var seen any
	if err := until(ctx, func() (done bool, err error) {
		done, seen, err = holds(ctx)
		return done, err
	}); err != nil {
		t.Fatalf("wait until %s: %v; seen last: %v", what, err, seen)
	}
}
