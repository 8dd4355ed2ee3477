package amqp

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/internal/rabbitmq"
)

// A nodeInfo is what the management interface reports about a node of the cluster.
type nodeInfo struct {
	Name       string
	Running    bool
	Memory     bool     `json:"mem_alarm"`
	Disk       bool     `json:"disk_free_alarm"`
	Partitions []string // nodes that it has lost contact with
}

// cluster examines the nodes: missing nodes, alarms and partitions.
func (e *examination) cluster(ctx context.Context) {
	var nodes []nodeInfo
	err := e.management.Get(ctx, &nodes, "name,running,mem_alarm,disk_free_alarm,partitions", "nodes")
	if _, refused := errors.AsType[*rabbitmq.Refusal](err); refused {
		e.Warn(checkCluster, "", fmt.Sprintf("user %q may not see the nodes, so neither those that are away nor partitions were looked for",
			e.management.Name()),
			"give it the tag monitoring: rabbitmqctl set_user_tags")
		return
	} else if err != nil {
		e.Warn(checkCluster, "", "the nodes cannot be looked at: "+errtext.Line(err), "look at the broker's log")
		return
	}
	well := true
	fail := func(check, node, found, remedy string) { well = false; e.Fail(check, node, found, remedy) }
	for _, n := range nodes {
		if n.Memory {
			fail(checkAlarms, n.Name, "it has an alarm of memory, so the whole cluster blocks publishing",
				"free memory, or raise vm_memory_high_watermark")
		}
		if n.Disk {
			fail(checkAlarms, n.Name, "it has an alarm of disk space, so the whole cluster blocks publishing",
				"free disk space, or lower disk_free_limit")
		}
		if len(n.Partitions) > 0 {
			fail(checkCluster, n.Name, "the network is partitioned: it has lost sight of "+strings.Join(n.Partitions,
				", ")+", and what either side confirms may be lost",
				"mend the network, and restart the side to be given up; see cluster_partition_handling")
		}
		if !n.Running {
			well = false
			e.Warn(checkCluster, n.Name, "this node is away", "start it, or remove it from the cluster with rabbitmqctl forget_cluster_node")
		}
	}
	if well {
		e.Well(checkCluster, "", fmt.Sprintf("nodes that run: %d, without alarm or partition", len(nodes)))
	}
}
