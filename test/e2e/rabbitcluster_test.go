package e2e

import (
	"context"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/services/cluster"
)

var rabbitClusters = append([]clusterCase{
	{name: "minority pauses", faults: 2, happens: func(r *clusterRun) { minority(r, cluster.PauseMinority) }},
	{name: "minority goes on", faults: 2, happens: func(r *clusterRun) { minority(r, cluster.IgnoreMinority) }},
}, anyCluster...)

// minority cuts off the node to which the relay is connected.
func minority(r *clusterRun, handling string) {
	c := r.Cluster.(*cluster.RabbitMQ)
	r.within(func(ctx context.Context) error { return c.CutOff(ctx, 1, handling) })
	r.flow(0, 2)
	r.flow(0, 1, 2)
	r.within(func(ctx context.Context) error { return c.Rejoin(ctx, 1) })
}

// TestRabbitClusters takes nodes of three with quorum queues away.
func TestRabbitClusters(t *testing.T) {
	t.Parallel()
	const exactly = false
	runClusterCases(t, "rabbitmq", exactly, rabbitClusters)
}
