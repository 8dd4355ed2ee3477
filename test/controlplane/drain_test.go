package controlplane

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubectl/pkg/drain"
)

// drain does what kubectl drain does with the node of the first pod. If the node's pods may go elsewhere, it waits
// until they have. In the end pods may be placed on the node again.
func (s space) drain(t *testing.T, elsewhere bool) {
	t.Helper()
	node := s.pods(t)[0].Spec.NodeName
	s.cordon(t, true, node)
	if err := drain.RunNodeDrain(s.helper(t), node); err != nil {
		t.Fatalf("drain %s: %v", node, err)
	}
	for _, pod := range s.pods(t) {
		if pod.Spec.NodeName == node {
			t.Errorf("the drained node still has %s", pod.Name)
		}
	}
	if elsewhere {
		s.settled(t)
	}
	s.cordon(t, false, node)
	s.settled(t)
}

func (s space) cordon(t *testing.T, shut bool, names ...string) {
	t.Helper()
	for _, name := range names {
		node, err := s.Client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := drain.RunCordonOrUncordon(s.helper(t), node, shut); err != nil {
			t.Fatal(err)
		}
	}
}

func (s space) helper(t *testing.T) *drain.Helper {
	t.Helper()
	return &drain.Helper{
		Ctx: t.Context(), Client: s.Client, GracePeriodSeconds: -1, IgnoreAllDaemonSets: true, Timeout: patience,
		EvictErrorRetryDelay: 100 * time.Millisecond, Out: io.Discard, ErrOut: io.Discard,
	}
}

func (s space) evict(t *testing.T, pod corev1.Pod) error {
	t.Helper()
	eviction := policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: s.name}}
	return s.Client.PolicyV1().Evictions(s.name).Evict(t.Context(), &eviction)
}

// budget returns the release's PodDisruptionBudget, once its controller has counted the given number of ready pods.
func (s space) budget(t *testing.T, healthy int) policyv1.PodDisruptionBudget {
	t.Helper()
	var budget policyv1.PodDisruptionBudget
	eventually(t, "the budget has counted the pods", func(ctx context.Context) (bool, any, error) {
		all, err := s.Client.PolicyV1().PodDisruptionBudgets(s.name).List(ctx, metav1.ListOptions{})
		if err != nil || len(all.Items) != 1 {
			t.Fatalf("%d budgets, want one: %v", len(all.Items), err)
		}
		budget = all.Items[0]
		return budget.Status.ObservedGeneration == budget.Generation && int(budget.Status.CurrentHealthy) == healthy,
			budget.Status, nil
	})
	return budget
}

// testBudget checks both halves of the budget: it prevents the eviction of all working relays at once, and relays that
// wait for their broker do not block the drain of a node.
func (s space) testBudget(t *testing.T) {
	t.Helper()
	pods := s.pods(t)
	may := int(s.budget(t, len(pods)).Status.DisruptionsAllowed)
	if may < 1 || may >= len(pods) {
		t.Fatalf("the budget lets %d of %d pods be evicted", may, len(pods))
	}
	s.cordon(t, true, s.Nodes...) // evicted pods find no other place
	for _, pod := range pods[:may] {
		if err := s.evict(t, pod); err != nil {
			t.Fatalf("%d of %d pods may be evicted: %v", may, len(pods), err)
		}
	}
	s.budget(t, len(pods)-may)
	if err := s.evict(t, pods[may]); !errors.IsTooManyRequests(err) {
		t.Errorf("one more pod is evicted than the budget allows: %v", err)
	}
	s.cordon(t, false, s.Nodes...)
	s.settled(t)

	pods = s.pods(t)
	for _, pod := range pods {
		s.makeUnready(t, pod)
	}
	budget := s.budget(t, 0)
	s.evictUnhealthy(t, budget.Name, nil)
	if err := s.evict(t, pods[0]); !errors.IsTooManyRequests(err) {
		t.Errorf("without AlwaysAllow the eviction should be refused, or this test says nothing: %v", err)
	}
	s.evictUnhealthy(t, budget.Name, budget.Spec.UnhealthyPodEvictionPolicy)
	for _, pod := range pods {
		if err := s.evict(t, pod); err != nil {
			t.Errorf("a relay that is not ready cannot be evicted: %v", err)
		}
	}
	s.settled(t)
}

// makeUnready sets the status that the kubelet would set while /readyz fails.
func (s space) makeUnready(t *testing.T, pod corev1.Pod) {
	t.Helper()
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	pod.Status.Conditions[i].Status = corev1.ConditionFalse
	if _, err := s.Client.CoreV1().Pods(s.name).UpdateStatus(t.Context(), &pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// evictUnhealthy changes the budget's policy for pods that are not ready; nil is Kubernetes' default.
func (s space) evictUnhealthy(t *testing.T, budget string, policy *policyv1.UnhealthyPodEvictionPolicyType) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"unhealthyPodEvictionPolicy": policy}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Client.PolicyV1().PodDisruptionBudgets(s.name).Patch(t.Context(), budget, types.MergePatchType, patch,
		metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}
