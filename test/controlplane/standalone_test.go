package controlplane

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This is the life of a release with the values with which the README begins.
func testStandalone(t *testing.T, cluster *Cluster, version string) {
	t.Helper()
	s := newSpace(t, cluster, version+"-standalone")
	before := s.contents(t)
	h := newHelm(t, cluster, version, s.name)
	values := []string{"--values", scenarios + "minimal-values.yaml"}
	h.install(t, chart, values...)

	pods := s.pods(t)
	if len(pods) != 2 || pods[0].Spec.NodeName == pods[1].Spec.NodeName {
		t.Errorf("%d pods on %s and %s, want two on two nodes", len(pods), pods[0].Spec.NodeName,
			pods[len(pods)-1].Spec.NodeName)
	}
	for _, pod := range pods {
		for _, volume := range pod.Spec.Volumes {
			if strings.HasPrefix(volume.Name, "kube-api-access") {
				t.Errorf("%s has a token for the API", pod.Name)
			}
		}
	}
	s.testDoctor(t, h)
	s.keepsReady(t, 2, func() { h.upgrade(t, chart, append(values, "--set", "settings.OUTBOX_BATCH_SIZE=500")...) })
	s.keepsReady(t, 2, func() { s.restart(t, "2026-01-01T00:00:00Z") })
	s.keepsReady(t, 1, func() { s.drain(t, true) })
	s.testBudget(t)
	// Changes that kubectl has made since do not disturb either version of Helm.
	s.keepsReady(t, 2, func() { h.upgrade(t, chart, append(values, "--set", "settings.OUTBOX_BATCH_SIZE=200")...) })
	s.keepsReady(t, 2, func() { h.run(t, "rollback", release, "1", "--wait", "--timeout", "60s") })
	s.uninstall(t, h, before)
}

// This is the life of a release with every value changed from its default.
func testEveryValue(t *testing.T, cluster *Cluster, version string) {
	t.Helper()
	s := newSpace(t, cluster, version+"-full")
	before := s.contents(t)
	h := newHelm(t, cluster, version, s.name)
	values := []string{"--values", scenarios + "full-values.yaml", "--set", "dashboard.enabled=true"}
	h.install(t, chart, values...)
	s.testDoctor(t, h)
	s.testPrune(t)
	s.keepsReady(t, 3, func() { h.upgrade(t, chart, append(values, "--set", "settings.OUTBOX_BATCH_SIZE=500")...) })
	s.keepsReady(t, 1, func() { s.drain(t, false) }) // each zone must have its pod
	s.testBudget(t)
	s.uninstall(t, h, before)
}

// An autoscaler's number of replicas is kept through an upgrade.
func testAutoscaled(t *testing.T, cluster *Cluster, version string) {
	t.Helper()
	s := newSpace(t, cluster, version+"-autoscaled")
	before := s.contents(t)
	h := newHelm(t, cluster, version, s.name)
	values := []string{"--values", scenarios + "minimal-values.yaml", "--set", "replicas=null"}
	h.install(t, chart, values...)
	deployments := s.Client.AppsV1().Deployments(s.name)
	scale, err := deployments.GetScale(t.Context(), s.deployment(t).Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	scale.Spec.Replicas = 4
	autoscaler := metav1.UpdateOptions{FieldManager: "kube-controller-manager"}
	if _, err := deployments.UpdateScale(t.Context(), scale.Name, scale, autoscaler); err != nil {
		t.Fatal(err)
	}
	s.settled(t)
	s.keepsReady(t, 3, func() { h.upgrade(t, chart, append(values, "--set", "settings.OUTBOX_BATCH_SIZE=500")...) })
	if pods := s.pods(t); len(pods) != 4 {
		t.Errorf("the upgrade has left %d pods, want the autoscaler's 4", len(pods))
	}
	s.testBudget(t)
	s.uninstall(t, h, before)
}

// A release that was made by Helm 3 continues under Helm 4.
func testNewerHelm(t *testing.T, cluster *Cluster) {
	t.Helper()
	s := newSpace(t, cluster, "from-helm3")
	before := s.contents(t)
	values := []string{"--values", scenarios + "minimal-values.yaml"}
	newHelm(t, cluster, "helm3", s.name).install(t, chart, values...)
	s.restart(t, "2026-01-01T00:00:00Z")
	h := newHelm(t, cluster, "helm", s.name)
	s.keepsReady(t, 2, func() { h.upgrade(t, chart, append(values, "--set", "settings.OUTBOX_BATCH_SIZE=500")...) })
	s.keepsReady(t, 2, func() { h.upgrade(t, chart, append(values, "--server-side=true", "--force-conflicts")...) })
	s.uninstall(t, h, before)
}

// testDoctor runs helm test. The pod is admitted and placed. kwok would let it run forever, so the test writes its end.
func (s space) testDoctor(t *testing.T, h helm) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- s.finish(t.Context(), "app.kubernetes.io/component=doctor") }()
	h.run(t, "test", release, "--timeout", "60s")
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// finish makes the pod with these labels succeed as soon as it runs.
func (s space) finish(ctx context.Context, labels string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client := s.Client.CoreV1().Pods(s.name)
	return until(ctx, func() (bool, error) {
		pods, err := client.List(ctx, metav1.ListOptions{LabelSelector: labels})
		if err != nil || len(pods.Items) == 0 || pods.Items[0].Status.Phase != corev1.PodRunning {
			return false, err
		}
		pods.Items[0].Status.Phase = corev1.PodSucceeded
		_, err = client.UpdateStatus(ctx, &pods.Items[0], metav1.UpdateOptions{})
		return true, err
	})
}
