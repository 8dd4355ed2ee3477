package controlplane

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// marker is put on a pod when the change is over, so that the watch of the pods sees the end.
const marker = "tests/over"

// keepsReady makes a change, and fails if at any moment of the change fewer pods than least are ready.
func (s space) keepsReady(t *testing.T, least int, change func()) {
	t.Helper()
	selector, client := s.selector(t), s.Client.CoreV1().Pods(s.name)
	list, err := client.List(t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		t.Fatal(err)
	}
	ready := map[types.UID]bool{}
	for _, pod := range list.Items {
		ready[pod.UID] = podReady(pod) && pod.DeletionTimestamp == nil
	}
	if count(ready) < least {
		t.Fatalf("%d pods are ready at the start, want %d", count(ready), least)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	events, err := client.Watch(ctx, metav1.ListOptions{LabelSelector: selector, ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	fewest := make(chan int, 1)
	go func() {
		low := count(ready)
		defer func() { fewest <- low }()
		for event := range events.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				low = -1 // an error
				return
			}
			ready[pod.UID] = event.Type != watch.Deleted && podReady(*pod) && pod.DeletionTimestamp == nil
			low = min(low, count(ready))
			if pod.Annotations[marker] != "" {
				return
			}
		}
	}()
	change()
	pod := s.pods(t)[0]
	mark := []byte(`{"metadata":{"annotations":{"` + marker + `":"yes"}}}`)
	if _, err := client.Patch(ctx, pod.Name, types.MergePatchType, mark, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if low := <-fewest; low < least {
		t.Errorf("at one moment %d pods were ready, want %d", low, least)
	}
	mark = []byte(`{"metadata":{"annotations":{"` + marker + `":null}}}`)
	if _, err := client.Patch(ctx, pod.Name, types.MergePatchType, mark, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func count(ready map[types.UID]bool) (n int) {
	for _, is := range ready {
		if is {
			n++
		}
	}
	return n
}
