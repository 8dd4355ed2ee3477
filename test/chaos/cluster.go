package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/services/cluster"
	"github.com/outbox-relay/outbox-relay/test/chaos/plan"
)

// recovery is the time in which a cluster must be complete after a fault has ended.
const recovery = 3 * time.Minute

// node carries out a fault of the broker's nodes, and returns when the cluster is complete again. There is one such
// fault at a time, so that rows wait for a majority only as long as the fault lasts.
func (g *game) node(ctx context.Context, f plan.Fault) (err error) {
	g.alone(&g.servers[1], func() {
		c := g.site.servers.Cluster
		who := c.Nodes()[f.Pick].Name
		if f.Kind == plan.Roll {
			who = ""
		}
		g.note(f, f.Unclean()*plan.MaxReplicas, who, func() {
			ctx, cancel := context.WithTimeoutCause(ctx, f.Lasts+recovery, errors.New("the cluster does not recover"))
			defer cancel()
			if err = g.strike(ctx, c, f); err == nil {
				err = cluster.AwaitSync(ctx, c, g.broker.Replicated()...)
			}
		})
	})
	if err != nil {
		return fmt.Errorf("%s: %w", f, err)
	}
	return nil
}

// strike makes a fault happen and ends it.
func (g *game) strike(ctx context.Context, c cluster.Cluster, f plan.Fault) error {
	lasts := func() { pause(ctx, f.Lasts) }
	switch f.Kind {
	case plan.KillNode:
		return strikeNode(ctx, c, cluster.Kill, lasts, f.Pick)
	case plan.StopNode:
		return strikeNode(ctx, c, cluster.Stop, lasts, f.Pick)
	case plan.FreezeNode:
		return strikeNode(ctx, c, cluster.Freeze, lasts, f.Pick)
	case plan.BlackholeNode:
		return strikeNode(ctx, c, cluster.Blackhole, lasts, f.Pick)
	case plan.OneLeft:
		return strikeNode(ctx, c, cluster.Kill, lasts, (f.Pick+1)%cluster.Size, (f.Pick+2)%cluster.Size)
	case plan.Roll:
		return cluster.Roll(ctx, c, g.broker.Replicated(), func() { pause(ctx, f.Lasts/cluster.Size) })
	case plan.MoveLeaders:
		return g.moveLeaders(ctx, c, f.Pick)
	case plan.LameDuck:
		return lameDuck(ctx, c.(*cluster.NATS), f.Pick, lasts)
	case plan.Minority:
		return minority(ctx, c.(*cluster.RabbitMQ), f, lasts)
	default:
		return errors.New("not a fault of nodes")
	}
}

// strikeNode takes nodes away for a while.
func strikeNode(ctx context.Context, c cluster.Cluster, f cluster.Fault, lasts func(), nodes ...int) error {
	var all error
	for _, i := range nodes {
		all = errors.Join(all, f.Happens(c.Nodes()[i]))
	}
	lasts()
	for _, i := range nodes {
		all = errors.Join(all, f.Ends(c.Nodes()[i]))
	}
	for _, i := range nodes {
		all = errors.Join(all, c.Nodes()[i].Ready(ctx))
	}
	return all
}

// moved is the largest number of topics whose leaders move at once.
const moved = 3

// moveLeaders makes nodes lead that follow in the order of the nodes, beginning with one.
func (g *game) moveLeaders(ctx context.Context, c cluster.Cluster, to int) error {
	topics := g.broker.Replicated()
	for i := range min(moved, len(topics)) {
		if err := c.Move(ctx, topics[i], (to+i)%cluster.Size); err != nil {
			return err
		}
	}
	return nil
}

// lameDuck makes a server end slowly, and starts it again.
func lameDuck(ctx context.Context, c *cluster.NATS, node int, lasts func()) error {
	if err := c.LameDuck(ctx, node, func() {}); err != nil {
		return err
	}
	lasts()
	return c.Nodes()[node].Restart(ctx)
}

// minority cuts a node off from the others. Whether it pauses is drawn.
func minority(ctx context.Context, c *cluster.RabbitMQ, f plan.Fault, lasts func()) error {
	handling := cluster.IgnoreMinority
	if f.Count%2 == 0 {
		handling = cluster.PauseMinority
	}
	if err := c.CutOff(ctx, f.Pick, handling); err != nil {
		return err
	}
	lasts()
	return c.Rejoin(ctx, f.Pick)
}

// healCluster waits until all nodes are back, and keeps their logs beside those of the relays.
func (g *game) healCluster(ctx context.Context) error {
	c := g.site.servers.Cluster
	if c == nil {
		return nil
	}
	for _, n := range c.Nodes() {
		if err := os.WriteFile(filepath.Join(g.dir, n.Name+".log"), []byte(n.Log()), 0o600); err != nil {
			return fmt.Errorf("keep the log of %s: %w", n.Name, err)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, recovery, errors.New("the cluster does not recover"))
	defer cancel()
	return cluster.AwaitSync(ctx, c, g.broker.Replicated()...)
}
