package charts

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// The component adds the same sidecar to an application as the chart.
func TestKustomize(t *testing.T) {
	t.Parallel()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "example-kustomize")
	if err != nil {
		t.Fatal(err)
	}
	text, err := resources.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "example-kustomize", string(text))
	deployments := decode(t, string(text)).deployments
	if len(deployments) != 2 || len(deployments[1].Spec.Template.Spec.InitContainers) != 0 {
		t.Fatal("want two deployments, the second without a relay")
	}
	pod := deployments[0].Spec.Template.Spec
	relay := pod.InitContainers[0]
	checkContainer(t, relay, pod.Volumes)

	rendered, err := helm(t, "template", "orders", exampleApp(t))
	if err != nil {
		t.Fatal(err)
	}
	want := decode(t, rendered).deployments[0].Spec.Template.Spec.InitContainers[0]
	for name, value := range variables(relay) {
		if charts := variables(want)[name]; charts != value {
			t.Errorf("%s is %q, the chart's %q", name, value, charts)
		}
	}
	// Here the table's name comes from the ConfigMap.
	want.Env, relay.Env, want.EnvFrom, relay.EnvFrom = nil, nil, nil, nil
	want.ImagePullPolicy = corev1.PullPolicy("") // the chart names the default
	if !reflect.DeepEqual(relay, want) {
		t.Errorf("the component's container is\n%+v\nthe chart's\n%+v", relay, want)
	}
}
