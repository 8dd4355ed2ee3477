package cluster

import (
	"context"
	"fmt"
)

// A Fault takes a node away from its clients until it ends. A node that was away serves clients when it is ready.
type Fault struct {
	Name    string
	Happens func(n *Node) error
	Ends    func(n *Node) error
}

// The faults that every broker has in common.
var (
	Kill      = Fault{Name: "kill", Happens: func(n *Node) error { n.Kill(); return nil }, Ends: (*Node).Start}
	Stop      = Fault{Name: "stop", Happens: (*Node).Stop, Ends: (*Node).Start}
	Freeze    = Fault{Name: "freeze", Happens: (*Node).Freeze, Ends: (*Node).Thaw}
	Blackhole = Fault{ // unreachable for clients only: the other nodes notice nothing
		Name: "blackhole", Happens: func(n *Node) error { return n.Proxy.Blackhole() },
		Ends: func(n *Node) error { return n.Proxy.Restore() },
	}
)

// Roll restarts all nodes one after the other, as an operator does who upgrades them: the next one when all replicas of
// the topics are in sync. It calls meanwhile each time that a node is down.
func Roll(ctx context.Context, c Cluster, topics []string, meanwhile func()) error {
	for _, n := range c.Nodes() {
		if err := n.Stop(); err != nil {
			return err
		}
		meanwhile()
		if err := n.Restart(ctx); err != nil {
			return err
		}
		if err := AwaitSync(ctx, c, topics...); err != nil {
			return fmt.Errorf("after the restart of %s: %w", n.Name, err)
		}
	}
	return nil
}

// AwaitSync waits until all replicas of the topics are in sync.
func AwaitSync(ctx context.Context, c Cluster, topics ...string) error {
	return until(ctx, "all replicas are in sync", func() (bool, error) { return c.InSync(ctx, topics...), nil })
}
