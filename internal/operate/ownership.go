package operate

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/outbox-relay/outbox-relay/internal/owner"
)

// Ownership reads from the advisory locks which replicas relay.
func (o *Outbox) Ownership(ctx context.Context) (*Ownership, error) {
	found, err := o.replicas(ctx)
	if err != nil {
		return nil, err
	}
	result := &Ownership{Replicas: []Replica{}, Groups: []Group{}}
	earlier := false
	for _, one := range found {
		earlier = earlier || slices.ContainsFunc(one.replicas, func(r owner.Replica) bool { return r.Earlier })
		g := Group{
			Destinations: one.names, Column: one.column, Configured: one.configured, Shards: o.Shards, Replicas: []Replica{},
		}
		if len(one.replicas) > 0 && one.replicas[0].Owned.Len() > 0 {
			g.Shards = one.replicas[0].Of
		}
		var owned owner.Set
		for _, r := range one.replicas {
			owned = owned.Or(r.Owned)
			replica := Replica{Backend: r.Backend, Shards: r.Owned.Len(), Of: r.Of, CanPublish: r.Able}
			if !r.Able {
				replica.CannotPublishTo = one.names
			}
			g.Replicas = append(g.Replicas, replica)
		}
		g.Owned = owned.Len()
		g.Unowned = max(g.Shards-g.Owned, 0)
		if !one.configured && earlier { // which may relay them all
			continue
		}
		result.add(g)
	}
	slices.SortFunc(result.Replicas, func(a, b Replica) int {
		return cmp.Or(cmp.Compare(b.Shards, a.Shards), cmp.Compare(a.Backend, b.Backend))
	})
	return result, nil
}

// add adds a group, and its part of the totals.
func (o *Ownership) add(g Group) {
	o.Groups = append(o.Groups, g)
	o.Shards, o.Owned, o.Unowned = o.Shards+g.Shards, o.Owned+g.Owned, o.Unowned+g.Unowned
	for _, r := range g.Replicas {
		i := slices.IndexFunc(o.Replicas, func(other Replica) bool { return other.Backend == r.Backend })
		if i < 0 {
			i, o.Replicas = len(o.Replicas), append(o.Replicas, Replica{Backend: r.Backend, CanPublish: true})
		}
		total := &o.Replicas[i]
		total.Shards, total.Of = total.Shards+r.Shards, total.Of+r.Of
		total.CanPublish = total.CanPublish && r.CanPublish
		total.CannotPublishTo = append(total.CannotPublishTo, r.CannotPublishTo...)
	}
}

// group is a group of destinations with the replicas that take part in its ownership.
type group struct {
	names      []string
	column     string
	configured bool
	replicas   []owner.Replica
}

// replicas lists the replicas that take part in the ownership of each group: those of the configured destinations, and
// those of others whose state the table keeps.
func (o *Outbox) replicas(ctx context.Context) (groups []group, err error) {
	conn, err := o.Pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to database: %w", err)
	}
	defer conn.Release()
	table := o.Views[0].Table
	var columns []string
	for _, g := range table.Groups() {
		groups, columns = append(groups, group{names: g.Names, column: g.Column, configured: true}), append(columns, g.Column)
	}
	for _, s := range table.Strangers() {
		groups, columns = append(groups, group{names: []string{s.String()}, column: s.Column()}), append(columns, s.Column())
	}
	found, err := owner.Replicas(ctx, conn.Conn(), table.Name(), columns...)
	if err != nil {
		return nil, fmt.Errorf("look at the replicas: %w", err)
	}
	for i := range groups {
		groups[i].replicas = found[i]
	}
	return groups, nil
}

// replicasOf lists the replicas that take part in the ownership of a view's group. Those of versions that own the
// shards of all destinations together do.
func replicasOf(groups []group, view View) (replicas []owner.Replica) {
	for _, g := range groups {
		for _, r := range g.replicas {
			if r.Earlier || g.column == view.Table.GroupColumn() {
				replicas = append(replicas, r)
			}
		}
	}
	return replicas
}
