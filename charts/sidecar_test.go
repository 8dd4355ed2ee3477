package charts

import "testing"

// By a switch the relay is a classic container, of the same making, beside the application's.
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
