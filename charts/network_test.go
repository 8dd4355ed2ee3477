package charts

import (
	"fmt"
	"slices"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
)

// The policy selects every pod of the release, and allows the connections that its settings need.
func TestNetworkPolicy(t *testing.T) {
	t.Parallel()
	for set, want := range map[string][]string{
		"http.port=9630": {
			"in TCP relay-metrics", "TCP 53", "UDP 53", "TCP 5432", "TCP 4222", "TCP 5671", "TCP 5672",
			"TCP 9092", "TCP 9093",
		},
		"settings.OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318,networkPolicy.broker.ports={4222}": {
			"in TCP relay-metrics", "TCP 53", "UDP 53",
			"TCP 5432", "TCP 4222", "TCP 4318",
		},
	} {
		args := append([]string{"template", "shop", "outbox-relay", "--set", "networkPolicy.enabled=true,prune.enabled=true"},
			minimal...)
		rendered, err := helm(t, append(args, set)...)
		if err != nil {
			t.Fatal(err)
		}
		all := decode(t, rendered)
		if len(all.policies) != 1 {
			t.Fatalf("%d policies", len(all.policies))
		}
		spec := all.policies[0].Spec
		for pod, labels := range map[string]map[string]string{
			"relay":  all.deployments[0].Spec.Template.Labels,
			"doctor": all.pods[0].Labels,
			"prune":  all.cronJobs[0].Spec.JobTemplate.Spec.Template.Labels,
		} {
			for label, value := range spec.PodSelector.MatchLabels {
				if labels[label] != value {
					t.Errorf("the policy does not select the pod of %s: %v", pod, labels)
				}
			}
		}
		if got := open(spec); !slices.Equal(got, want) {
			t.Errorf("%s opens %v, want %v", set, got, want)
		}
	}
}

// open lists the ports of a policy.
func open(spec networkingv1.NetworkPolicySpec) (ports []string) {
	for _, rule := range spec.Ingress {
		for _, port := range rule.Ports {
			ports = append(ports, fmt.Sprint("in ", *port.Protocol, " ", port.Port))
		}
	}
	for _, rule := range spec.Egress {
		for _, port := range rule.Ports {
			ports = append(ports, fmt.Sprint(*port.Protocol, " ", port.Port))
		}
	}
	return ports
}
