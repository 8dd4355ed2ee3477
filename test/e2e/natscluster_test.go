package e2e

import (
	"syscall"
	"testing"
)

var natsClusters = append([]clusterCase{
	{name: "lame duck", happens: func(r *clusterRun) {
		r.must(r.nodes[1].Signal(syscall.SIGUSR2)) // asks its clients to leave, and closes their connections one by one
		await(r.t, "the server has ended", func() bool {
			r.flow(0, 1, 2)
			return !r.nodes[1].Up()
		})
		r.nodes[1].Kill() // for its proxy
		r.start(1)
	}},
}, anyCluster...)

// TestNATSClusters takes servers of three with replicated streams away.
func TestNATSClusters(t *testing.T) {
	t.Parallel()
	const exactly = false
	runClusterCases(t, "nats", exactly, natsClusters)
}
