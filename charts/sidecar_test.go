package charts

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// A switch makes the relay a classic container beside the application's, with the same contents.
func TestClassicSidecar(t *testing.T) {
	t.Parallel()
	rendered, err := helm(t, "template", "orders", exampleApp(t), "--set", "outbox-relay.sidecar.native=false")
	if err != nil {
		t.Fatal(err)
	}
	pod := decode(t, rendered).deployments[0].Spec.Template.Spec
	if len(pod.InitContainers) != 0 || len(pod.Containers) != 2 {
		t.Fatalf("%d init containers and %d containers, want none and two", len(pod.InitContainers), len(pod.Containers))
	}
	relay := pod.Containers[1]
	checkContainer(t, relay, pod.Volumes)
	if relay.Name != "outbox-relay" || relay.RestartPolicy != nil {
		t.Errorf("%s has the restart policy %v, which only init containers may have", relay.Name, relay.RestartPolicy)
	}
	if relay.ReadinessProbe != nil {
		t.Error("a readiness probe takes the application out of its Service when a broker is down")
	}
}

// A separate metrics port keeps the port's name, by which monitors scrape; the probes use the other port.
func TestMetricsPort(t *testing.T) {
	t.Parallel()
	rendered, err := helm(t,
		append(append([]string{"template", "shop", "outbox-relay"}, minimal...), "http.metricsPort=9631")...)
	if err != nil {
		t.Fatal(err)
	}
	relay := decode(t, rendered).deployments[0].Spec.Template.Spec.Containers[0]
	ports := map[string]int32{}
	for _, port := range relay.Ports {
		ports[port.Name] = port.ContainerPort
	}
	if ports["relay-health"] != 9630 || ports["relay-metrics"] != 9631 ||
		variables(relay)["OUTBOX_METRICS_ADDR"] != ":9631" {
		t.Errorf("ports %v, variables %v", ports, variables(relay))
	}
	if health := intstr.FromString("relay-health"); relay.LivenessProbe.HTTPGet.Port != health ||
		relay.ReadinessProbe.HTTPGet.Port != health {
		t.Error("the probes ask the port of the metrics, which has no health")
	}
}
