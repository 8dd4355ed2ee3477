// Package controlplane runs a Kubernetes control plane with nodes that kwok simulates, for tests of the charts: they
// check how the API server, the controllers and the scheduler handle the charts. No container runs.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	nodes "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	leases "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	pods "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
)

// A Cluster is a running control plane with its nodes.
type Cluster struct {
	Kubeconfig string       // path of a kubeconfig file for a user who may do everything
	Config     *rest.Config // client configuration for the same user
	Client     kubernetes.Interface
	Nodes      []string

	programs *programs
}

// starting bounds the start of the whole control plane, which takes some seconds.
const starting = 3 * time.Minute

// Start starts etcd, the API server, the controllers, the scheduler and kwok from the folder binaries, and waits until
// three nodes are ready. Data, keys and logs are written to dir. The caller must call Stop, also after an error.
func (c *Cluster) Start(ctx context.Context, binaries, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, starting)
	defer cancel()
	c.programs = &programs{binaries: binaries, logs: dir}
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	etcd, peer, api := fmt.Sprintf("http://127.0.0.1:%d", ports[0]), fmt.Sprintf("http://127.0.0.1:%d",
		ports[1]), ports[2]
	a := &access{dir: dir, address: fmt.Sprintf("https://127.0.0.1:%d", api)}
	if err := a.prepare(); err != nil {
		return err
	}
	c.programs.start("etcd", "--data-dir", filepath.Join(dir, "etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls", etcd, "--advertise-client-urls", etcd,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	c.programs.start("kube-apiserver", "--etcd-servers", etcd, "--bind-address=127.0.0.1", "--secure-port",
		fmt.Sprint(api),
		"--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.96.0.0/16", "--authorization-mode=RBAC",
		"--cert-dir", dir, "--token-auth-file", a.tokens(), "--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file", a.key(), "--service-account-signing-key-file", a.key())
	if err := c.connect(ctx, a); err != nil {
		return errors.Join(err, c.programs.failure())
	}
	c.programs.start("kube-controller-manager", "--kubeconfig", c.Kubeconfig, "--leader-elect=false", "--secure-port=0",
		"--root-ca-file", a.certificate(), "--service-account-private-key-file", a.key())
	c.programs.start("kube-scheduler", "--kubeconfig", c.Kubeconfig, "--leader-elect=false", "--secure-port=0")
	stages := filepath.Join(dir, "stages.yaml")
	if err := os.WriteFile(stages, []byte(pretended()), 0o600); err != nil {
		return fmt.Errorf("write what kwok pretends: %w", err)
	}
	c.programs.start("kwok", "--kubeconfig", c.Kubeconfig, "--config", stages, "--manage-all-nodes=true",
		"--node-lease-duration-seconds=40",
		"--server-address=")
	for i := range 3 {
		c.Nodes = append(c.Nodes, fmt.Sprint("node-", i+1))
		if err := c.addNode(ctx, c.Nodes[i]); err != nil {
			return err
		}
	}
	return errors.Join(c.nodesReady(ctx), c.programs.failure())
}

// Stop stops all programs and waits for their end.
func (c *Cluster) Stop() { c.programs.stop() }

// connect waits for the API server, which writes its certificate when it starts for the first time.
func (c *Cluster) connect(ctx context.Context, a *access) error {
	if err := until(ctx, func() (bool, error) {
		_, err := os.Stat(a.certificate())
		return err == nil, c.programs.failure()
	}); err != nil {
		return fmt.Errorf("wait for the API server's certificate: %w", err)
	}
	if err := a.writeKubeconfig(); err != nil {
		return err
	}
	c.Kubeconfig = a.kubeconfig()
	var err error
	if c.Config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig); err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	c.Config.QPS, c.Config.Burst = 1000, 1000
	if c.Client, err = kubernetes.NewForConfig(c.Config); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	var last error
	if err := until(ctx, func() (bool, error) {
		last = c.Client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
		return last == nil, c.programs.failure()
	}); err != nil {
		return fmt.Errorf("wait for the API server: %w: %w", err, last)
	}
	return nil
}

// pretended is the configuration of what kwok does in place of kubelets: nodes are ready and stay ready, pods are ready
// as soon as they have a node, pods of jobs succeed, and pods to be deleted disappear.
func pretended() string {
	return strings.Join([]string{
		nodes.DefaultNodeInit, leases.DefaultNodeHeartbeatWithLease, pods.DefaultPodReady, pods.DefaultPodComplete,
		pods.DefaultPodDelete,
	}, "\n---\n")
}

func (c *Cluster) addNode(ctx context.Context, name string) error {
	room := corev1.ResourceList{
		"cpu": resource.MustParse("8"), "memory": resource.MustParse("32Gi"),
		"pods": resource.MustParse("110"),
	}
	node := corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
			corev1.LabelTopologyZone: "zone-" + name,
		}},
		Status: corev1.NodeStatus{Capacity: room, Allocatable: room},
	}
	if _, err := c.Client.CoreV1().Nodes().Create(ctx, &node, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("add a node: %w", err)
	}
	return nil
}

// nodesReady waits until pods can be placed on all nodes: a new node is tainted until its controller has seen that it
// is ready.
func (c *Cluster) nodesReady(ctx context.Context) error {
	err := until(ctx, func() (bool, error) {
		all, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, fmt.Errorf("list nodes: %w", err)
		}
		for _, node := range all.Items {
			if len(node.Spec.Taints) > 0 || !nodeReady(node) {
				return false, c.programs.failure()
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the nodes: %w", err)
	}
	return nil
}

func nodeReady(node corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// until polls a condition until it holds, the check fails, or the context ends.
func until(ctx context.Context, holds func() (bool, error)) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if done, err := holds(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// freePorts returns ports on which nothing listened a moment ago.
func freePorts(n int) (ports []int, err error) {
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it returns at once
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer func() { _ = listener.Close() }() // at the end, so that no port is found twice
		address, _ := listener.Addr().(*net.TCPAddr)
		ports = append(ports, address.Port)
	}
	return ports, nil
}
