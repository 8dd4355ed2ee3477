package controlplane

import (
	"context"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// testPrune does what kubectl create job --from=cronjob/... does, and waits for the job's end.
func (s space) testPrune(t *testing.T) {
	t.Helper()
	client := s.Client.BatchV1()
	all, err := client.CronJobs(s.name).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(all.Items) != 1 {
		t.Fatalf("%d cron jobs, want one: %v", len(all.Items), err)
	}
	cron := all.Items[0]
	owner := *metav1.NewControllerRef(&cron, batchv1.SchemeGroupVersion.WithKind("CronJob"))
	job := batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "by-hand", OwnerReferences: []metav1.OwnerReference{owner}},
		Spec:       cron.Spec.JobTemplate.Spec,
	}
	if _, err := client.Jobs(s.name).Create(t.Context(), &job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the job that prunes has ended", func(ctx context.Context) (bool, any, error) {
		now, err := client.Jobs(s.name).Get(ctx, job.Name, metav1.GetOptions{})
		if err != nil {
			return false, nil, err
		}
		return now.Status.Succeeded == 1, now.Status, nil
	})
}
