package e2e

import "testing"

var kafkaClusters = append([]clusterCase{
	{name: "ISR of one", happens: func(r *clusterRun) { // fewer replicas in sync than the topics require
		r.nodes[0].Kill()
		r.nodes[1].Kill()
		r.held(0, 1, 2)
		r.must(r.nodes[0].Start())
		r.start(1)
		r.ready(0)
		r.flow(0, 1, 2)
	}},
	{name: "short freeze", happens: func(r *clusterRun) { // short enough that no other node becomes the leader
		for range 3 {
			r.must(r.nodes[1].Freeze())
			r.flow(0, 2)
			r.must(r.nodes[1].Thaw())
			r.flow(0, 1, 2)
		}
	}},
}, anyCluster...)

// TestKafkaClusters takes nodes of three KRaft brokers away. Nothing is delivered twice, because producers are
// idempotent.
func TestKafkaClusters(t *testing.T) {
	t.Parallel()
	const exactly = true
	runClusterCases(t, "kafka", exactly, kafkaClusters)
}
