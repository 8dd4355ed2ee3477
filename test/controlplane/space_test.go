package controlplane

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// A space is a namespace in which the restricted Pod Security Standard is enforced.
type space struct {
	*Cluster
	name string
}

// newSpace makes a namespace with the objects that users provide: Secrets, and whatever full-values.yaml names.
func newSpace(t *testing.T, cluster *Cluster, name string) space {
	t.Helper()
	labels := map[string]string{}
	for _, mode := range []string{"enforce", "warn", "audit"} {
		labels["pod-security.kubernetes.io/"+mode] = "restricted"
	}
	s := space{cluster, name}
	t.Cleanup(func() { s.clear(t) })
	core := cluster.Client.CoreV1()
	namespace := corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if _, err := core.Namespaces().Create(t.Context(), &namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	secret := corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "orders-outbox"}, StringData: map[string]string{
		"database-url": "postgres://outbox_relay@postgres/orders", "prune-url": "postgres://prune@postgres/orders",
		"publish-url": "nats://nats:4222",
	}}
	if _, err := core.Secrets(name).Create(t.Context(), &secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	account := corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "orders"}}
	if _, err := core.ServiceAccounts(name).Create(t.Context(), &account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace has what controllers put into it", func(ctx context.Context) (bool, any, error) {
		_, err := core.ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			_, err = core.ConfigMaps(name).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		}
		return err == nil, err, nil
	})
	return s
}

// clear removes the namespace, and allows pods on all nodes, for the tests that follow a failed one.
func (s space) clear(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	if err := s.Client.CoreV1().Namespaces().Delete(ctx, s.name, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	for _, node := range s.Nodes {
		patch := []byte(`{"spec":{"unschedulable":null}}`)
		if _, err := s.Client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch,
			metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
	}
}

// deployment returns the only deployment.
func (s space) deployment(t *testing.T) appsv1.Deployment {
	t.Helper()
	all, err := s.Client.AppsV1().Deployments(s.name).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(all.Items) != 1 {
		t.Fatalf("%d deployments, want one: %v", len(all.Items), err)
	}
	return all.Items[0]
}

// selector returns the selector by which the deployment finds its pods.
func (s space) selector(t *testing.T) string {
	t.Helper()
	return metav1.FormatLabelSelector(s.deployment(t).Spec.Selector)
}

// pods returns the deployment's pods that are not being deleted.
func (s space) pods(t *testing.T) (pods []corev1.Pod) {
	t.Helper()
	all, err := s.Client.CoreV1().Pods(s.name).List(t.Context(), metav1.ListOptions{LabelSelector: s.selector(t)})
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
}

func podReady(pod corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// settled waits until the rollout is over: all replicas exist, new and ready, and there is no other pod.
func (s space) settled(t *testing.T) {
	t.Helper()
	eventually(t, "the rollout is over", func(context.Context) (bool, any, error) {
		d := s.deployment(t)
		want, is := *d.Spec.Replicas, d.Status
		return is.ObservedGeneration == d.Generation && is.Replicas == want && is.UpdatedReplicas == want &&
			is.AvailableReplicas == want, is, nil
	})
}

// restart does what kubectl rollout restart does.
func (s space) restart(t *testing.T, when string) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":%q}}}}}`,
		when)
	_, err := s.Client.AppsV1().Deployments(s.name).Patch(t.Context(), s.deployment(t).Name, types.StrategicMergePatchType,
		[]byte(patch),
		metav1.PatchOptions{FieldManager: "kubectl-rollout"})
	if err != nil {
		t.Fatal(err)
	}
	s.settled(t)
}

// contents lists the objects in the namespace, except those that appear and disappear by themselves.
func (s space) contents(t *testing.T) map[string]bool {
	t.Helper()
	lists, err := s.Client.Discovery().ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range list.APIResources {
			if !kind.Namespaced || !slices.Contains(kind.Verbs, "list") || kind.Name == "events" {
				continue
			}
			objects, err := client.Resource(group.WithResource(kind.Name)).Namespace(s.name).List(t.Context(),
				metav1.ListOptions{})
			if errors.IsMethodNotSupported(err) {
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			for _, object := range objects.Items {
				found[kind.Name+"/"+object.GetName()] = true
			}
		}
	}
	return found
}

// uninstall removes the release. No object may remain that was not there before, except the pod of helm test: Helm
// leaves it, and it is gone if its node was drained.
func (s space) uninstall(t *testing.T, h helm, before map[string]bool) {
	t.Helper()
	h.run(t, "uninstall", release, "--wait", "--timeout", "60s")
	eventually(t, "the namespace is as before", func(context.Context) (bool, any, error) {
		now := s.contents(t)
		delete(now, "pods/orders-outbox-relay-doctor")
		return maps.Equal(now, before), strings.Join(slices.Sorted(maps.Keys(now)), " "), nil
	})
}
