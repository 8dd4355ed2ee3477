package e2e

import (
	"context"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/services/cluster"
)

var natsClusters = append([]clusterCase{
	{name: "lame duck", happens: func(r *clusterRun) {
		ctx, cancel := context.WithTimeout(r.t.Context(), 2*startPatience)
		defer cancel()
		r.must(r.Cluster.(*cluster.NATS).LameDuck(ctx, 1, func() { r.flow(0, 1, 2) }))
		r.start(1)
	}},
}, anyCluster...)

// TestNATSClusters takes servers of three with replicated streams away.
func TestNATSClusters(t *testing.T) {
	t.Parallel()
	const exactly = false
	runClusterCases(t, "nats", exactly, natsClusters)
}
