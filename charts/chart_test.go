package charts

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
)

// Every file in ci/ is a scenario: it is linted, rendered, compared and checked.
func TestScenarios(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("outbox-relay/ci/*-values.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), "-values.yaml")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := helm(t, "lint", "--strict", "outbox-relay", "--values", file); err != nil {
				t.Error(err)
			}
			rendered, err := helm(t, "template", "shop", "outbox-relay", "--namespace", "orders", "--values", file)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, name, rendered)

			all := decode(t, rendered)
			for _, job := range all.cronJobs {
				pod := job.Spec.JobTemplate.Spec.Template.Spec
				checkRestricted(t, pod.Containers[0].SecurityContext)
				checkMounts(t, pod.Containers[0], pod.Volumes)
			}
			for _, budget := range all.budgets {
				if policy := budget.Spec.UnhealthyPodEvictionPolicy; policy == nil || *policy != policyv1.AlwaysAllow {
					t.Error("a node cannot be drained while a broker is away and no pod is ready")
				}
			}
			if name == "sidecar" {
				if len(all.deployments) != 0 {
					t.Error("sidecar mode deploys relays by itself")
				}
				return
			}
			if len(all.deployments) != 1 {
				t.Fatalf("%d deployments, want 1", len(all.deployments))
			}
			pod := all.deployments[0].Spec.Template.Spec
			if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
				t.Error("the service account's token is mounted")
			}
			relay := pod.Containers[0]
			checkContainer(t, relay, pod.Volumes)
			if relay.ReadinessProbe == nil || relay.ReadinessProbe.HTTPGet.Path != "/readyz" {
				t.Errorf("readiness probe is %v, want /readyz", relay.ReadinessProbe)
			}
		})
	}
}

// helm test runs doctor with all the settings of the relay, in a pod that nothing selects.
func TestDoctorPod(t *testing.T) {
	t.Parallel()
	rendered, err := helm(t, "template", "shop", "outbox-relay", "--values", "outbox-relay/ci/full-values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := decode(t, rendered)
	deployments, pods := all.deployments, all.pods
	if len(deployments) != 1 || len(pods) != 1 {
		t.Fatalf("%d deployments, %d pods", len(deployments), len(pods))
	}
	relay, doctor := deployments[0].Spec.Template.Spec, pods[0].Spec
	if pods[0].Annotations["helm.sh/hook"] != "test" || doctor.RestartPolicy != corev1.RestartPolicyNever ||
		!slices.Equal(doctor.Containers[0].Args, []string{"doctor"}) {
		t.Errorf("the pod is not a test that runs doctor: %+v", pods[0])
	}
	if !reflect.DeepEqual(doctor.Containers[0].Env, relay.Containers[0].Env) ||
		!reflect.DeepEqual(doctor.Containers[0].VolumeMounts, relay.Containers[0].VolumeMounts) ||
		!reflect.DeepEqual(doctor.Volumes, relay.Volumes) || doctor.Containers[0].Image != relay.Containers[0].Image {
		t.Error("doctor is given other settings than the relay")
	}
	checkRestricted(t, doctor.Containers[0].SecurityContext)
	for name, value := range deployments[0].Spec.Selector.MatchLabels {
		if pods[0].Labels[name] == value {
			t.Errorf("the pod has the label %s, by which the relay's pods are selected", name)
		}
	}
}

// The example application is a chart of its own that depends on the relay's chart.
func TestSidecarInApplicationChart(t *testing.T) {
	t.Parallel()
	app := exampleApp(t)
	rendered, err := helm(t, "template", "orders", app)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "example-app", rendered)

	deployments := decode(t, rendered).deployments
	if len(deployments) != 1 || deployments[0].Name != "orders" {
		t.Fatalf("want the application's deployment alone, got %v", deployments)
	}
	pod := deployments[0].Spec.Template.Spec
	if len(pod.InitContainers) != 1 {
		t.Fatalf("%d init containers, want the sidecar", len(pod.InitContainers))
	}
	relay := pod.InitContainers[0]
	checkContainer(t, relay, pod.Volumes)
	if relay.RestartPolicy == nil || *relay.RestartPolicy != corev1.ContainerRestartPolicyAlways {
		t.Error("without restartPolicy Always the init container is not a sidecar and holds the pod up for ever")
	}
	if relay.ReadinessProbe != nil {
		t.Error("a readiness probe takes the application out of its Service when a broker is down")
	}
	if relay.StartupProbe == nil {
		t.Error("without a startup probe the application does not wait for the relay's process")
	}
	for _, own := range pod.Containers {
		checkRestricted(t, own.SecurityContext)
	}
}

// A sidecar without files has no volume, and a sidecar under an alias is rendered from its own values.
func TestSidecarVariants(t *testing.T) {
	t.Parallel()
	app := exampleApp(t)
	rendered, err := helm(t, "template", "orders", app, "--set", "outbox-relay.files=null",
		"--set", "outbox-relay.settings.OUTBOX_DATABASE_URL=postgres://db/orders,"+
			"outbox-relay.settings.OUTBOX_PUBLISH_URL=nats://nats")
	if err != nil {
		t.Fatal(err)
	}
	pod := decode(t, rendered).deployments[0].Spec.Template.Spec
	if len(pod.Volumes) != 0 || len(pod.InitContainers[0].VolumeMounts) != 0 {
		t.Errorf("volumes %v mounted as %v, want none", pod.Volumes, pod.InitContainers[0].VolumeMounts)
	}

	replaceIn(t, filepath.Join(app, "Chart.yaml"), "repository:", "alias: relay\n    repository:")
	replaceIn(t, filepath.Join(app, "values.yaml"), "outbox-relay:\n", "relay:\n")
	for _, template := range []string{"sidecar", "container", "volumes"} {
		replaceIn(t, filepath.Join(app, "templates/deployment.yaml"),
			`"outbox-relay.`+template+`" .`, `"outbox-relay.`+template+`" (index .Subcharts "relay")`)
	}
	if _, err := helm(t, "dependency", "update", app); err != nil {
		t.Fatal(err)
	}
	rendered, err = helm(t, "template", "orders", app)
	if err != nil {
		t.Fatal(err)
	}
	pod = decode(t, rendered).deployments[0].Spec.Template.Spec
	checkContainer(t, pod.InitContainers[0], pod.Volumes)
}

// A variable that is named twice appears once, at its first place and with its last value.
func TestEnvIsMergedByName(t *testing.T) {
	t.Parallel()
	rendered, err := helm(t, "template", "shop", "outbox-relay", "--values", "outbox-relay/ci/full-values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	env := decode(t, rendered).deployments[0].Spec.Template.Spec.Containers[0].Env
	for name, want := range map[string]string{
		"OUTBOX_LOG_LEVEL":      "debug",
		"GOMEMLIMIT":            "100MiB",
		"OUTBOX_BATCH_SIZE":     "1000000",
		"OUTBOX_LISTEN_CHANNEL": "",
	} {
		i := slices.IndexFunc(env, func(v corev1.EnvVar) bool { return v.Name == name })
		if i < 0 || env[i].Value != want {
			t.Errorf("%s is not %q in %v", name, want, env)
		}
	}
}

// If an autoscaler sets the replicas, the chart does not, and the disruption budget fits the autoscaler's number.
func TestAutoscaled(t *testing.T) {
	t.Parallel()
	rendered, err := helm(t, append(append([]string{"template", "shop", "outbox-relay"}, minimal...), "replicas=null")...)
	if err != nil {
		t.Fatal(err)
	}
	all := decode(t, rendered)
	if replicas := all.deployments[0].Spec.Replicas; replicas != nil {
		t.Errorf("the deployment asks for %d replicas, which an upgrade would go back to", *replicas)
	}
	if len(all.budgets) != 1 {
		t.Errorf("%d disruption budgets, want one", len(all.budgets))
	}
}

// The notes after an installation state the number of replicas, which share the rows.
func TestNotes(t *testing.T) {
	t.Parallel()
	for replicas, want := range map[string]string{
		"1":    "One relay is being deployed, and relays all rows.",
		"2":    "2 relays are being deployed, which share the rows.",
		"null": "Relays are being deployed, as many as the autoscaler asks for, which share the rows.",
	} {
		printed, err := helm(t, "install", "shop", "outbox-relay", "--dry-run=client", "--values",
			"outbox-relay/ci/minimal-values.yaml", "--set", "replicas="+replicas)
		if err != nil {
			t.Fatal(err)
		}
		_, notes, _ := strings.Cut(printed, "NOTES:\n")
		if !strings.HasPrefix(notes, want) {
			t.Errorf("%s: %q, want it to begin with %q", replicas, notes, want)
		}
	}
	// The certificate does not cover the loopback interface.
	const want = "port-forward deployment/shop-outbox-relay 9630 &\n  curl --insecure " +
		"'https://127.0.0.1:9630/readyz?verbose'\n"
	printed, err := helm(t, "install", "shop", "outbox-relay", "--dry-run=client", "--values",
		"outbox-relay/ci/minimal-values.yaml",
		"--set", "http.scheme=HTTPS")
	if err != nil || !strings.Contains(printed, want) {
		t.Errorf("with TLS: %q (%v)", printed, err)
	}
}
