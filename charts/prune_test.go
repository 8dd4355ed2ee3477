package charts

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// The job that deletes old rows has the relay's settings, except for those of prune.files: its role may delete.
func TestPruneJob(t *testing.T) {
	t.Parallel()
	rendered, err := helm(t, "template", "shop", "outbox-relay", "--set",
		"image.repository=relay,settings.OUTBOX_PUBLISH_URL=nats://nats",
		"--set", "settings.OUTBOX_DATABASE_URL=postgres://relay@db/shop,settings.OUTBOX_TABLE=shop.outbox",
		"--set", "prune.enabled=true,prune.files.OUTBOX_DATABASE_URL.secret=orders-prune,"+
			"prune.files.OUTBOX_DATABASE_URL.key=url")
	if err != nil {
		t.Fatal(err)
	}
	all := decode(t, rendered)
	if len(all.cronJobs) != 1 {
		t.Fatalf("%d jobs", len(all.cronJobs))
	}
	pod := all.cronJobs[0].Spec.JobTemplate.Spec.Template.Spec
	if args := []string{"prune", "--older-than", "7d", "--yes"}; !slices.Equal(pod.Containers[0].Args, args) {
		t.Errorf("the job runs %v, want %v", pod.Containers[0].Args, args)
	}
	prune, relay := variables(pod.Containers[0]), variables(all.deployments[0].Spec.Template.Spec.Containers[0])
	if prune["OUTBOX_DATABASE_URL"] != "" || prune["OUTBOX_DATABASE_URL_FILE"] == "" ||
		prune["OUTBOX_TABLE"] != "shop.outbox" {
		t.Errorf("the job's variables are %v", prune)
	}
	if relay["OUTBOX_DATABASE_URL"] == "" || relay["OUTBOX_DATABASE_URL_FILE"] != "" {
		t.Errorf("the relay's variables have changed: %v", relay)
	}
	checkMounts(t, pod.Containers[0], pod.Volumes)
	if name := pod.Volumes[0].Projected.Sources[0].Secret.Name; name != "orders-prune" {
		t.Errorf("the first file is of the secret %s", name)
	}
	if jobs := all.cronJobs[0].Spec.JobTemplate.Labels; jobs["app.kubernetes.io/instance"] != "shop" {
		t.Errorf("the jobs have the labels %v, by which docs/alerts.md does not find them", jobs)
	}
	for label, value := range all.deployments[0].Spec.Selector.MatchLabels {
		if all.cronJobs[0].Spec.JobTemplate.Spec.Template.Labels[label] == value {
			t.Errorf("the job's pods have the label %s, by which the relay's pods are selected", label)
		}
	}
}

func variables(c corev1.Container) map[string]string {
	all := map[string]string{}
	for _, v := range c.Env {
		all[v.Name] = v.Value
	}
	return all
}
