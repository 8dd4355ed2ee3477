package controlplane

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	chart     = "../../charts/outbox-relay"
	scenarios = chart + "/ci/"
	release   = "orders"
)

// A helm is one of the two Helm versions, in one namespace.
type helm struct {
	binary, namespace, kubeconfig, home string
}

func newHelm(t *testing.T, cluster *Cluster, version, namespace string) helm {
	t.Helper()
	binary, err := filepath.Abs("../../bin/" + version)
	if err != nil {
		t.Fatal(err)
	}
	// The user's home is not used.
	return helm{binary: binary, namespace: namespace, kubeconfig: cluster.Kubeconfig, home: t.TempDir()}
}

// try runs helm. A warning of the API server is an error too.
func (h helm) try(t *testing.T, args ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), h.binary, append(args, "--namespace", h.namespace)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+h.kubeconfig,
		"HELM_CACHE_HOME="+h.home, "HELM_CONFIG_HOME="+h.home, "HELM_DATA_HOME="+h.home)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return stdout.String(), errors.Join(err, errors.New(stderr.String()+stdout.String()))
	}
	for _, warning := range []string{"Warning", "warning", "would violate", "unknown field", "duplicate"} {
		if strings.Contains(stderr.String(), warning) {
			return stdout.String(), errors.New(stderr.String())
		}
	}
	return stdout.String(), nil
}

func (h helm) run(t *testing.T, args ...string) string {
	t.Helper()
	began := time.Now()
	out, err := h.try(t, args...)
	if err != nil {
		t.Fatalf("%s %s: %v", filepath.Base(h.binary), strings.Join(args, " "), err)
	}
	t.Logf("%s %s: %s", filepath.Base(h.binary), args[0], time.Since(began).Round(time.Millisecond))
	return out
}

// install installs a chart and waits until all of it is ready, for at most a minute.
func (h helm) install(t *testing.T, chart string, args ...string) {
	t.Helper()
	h.run(t, append([]string{"install", release, chart, "--wait", "--timeout", "60s"}, args...)...)
}

func (h helm) upgrade(t *testing.T, chart string, args ...string) {
	t.Helper()
	h.run(t, append([]string{"upgrade", release, chart, "--wait", "--timeout", "60s"}, args...)...)
}
