package operate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
)

// Ownership reads from the advisory locks which replicas relay.
func (o *Outbox) Ownership(ctx context.Context) (*Ownership, error) {
	all, err := o.members(ctx)
	if err != nil {
		return nil, err
	}
	total := &Ownership{Shares: Shares{Replicas: []Replica{}}, Groups: []Group{}}
	for _, m := range all {
		g := Group{
			Destinations: m.Names, Column: m.Column, Configured: m.Stranger == nil,
			Shares: Shares{Shards: o.Shards, Replicas: []Replica{}},
		}
		if len(m.Replicas) > 0 && m.Replicas[0].Owned.Len() > 0 {
			g.Shards = m.Replicas[0].Of
		}
		var owned owner.Set
		for _, r := range m.Replicas {
			owned = owned.Or(r.Owned)
			replica := Replica{Backend: r.Backend, Shards: r.Owned.Len(), Of: r.Of, CanPublish: r.Able}
			if !r.Able {
				replica.CannotPublishTo = m.Names
			}
			g.Replicas = append(g.Replicas, replica)
			total.add(replica)
		}
		g.Owned = owned.Len()
		g.Unowned = max(g.Shards-g.Owned, 0)
		total.Groups = append(total.Groups, g)
		total.Shards, total.Owned, total.Unowned = total.Shards+g.Shards, total.Owned+g.Owned, total.Unowned+g.Unowned
	}
	slices.SortFunc(total.Replicas, func(a, b Replica) int {
		return cmp.Or(cmp.Compare(b.Shards, a.Shards), cmp.Compare(a.Backend, b.Backend))
	})
	return total, nil
}

// add adds a replica's part in a group to its part in all.
func (s *Shares) add(r Replica) {
	at := slices.IndexFunc(s.Replicas, func(other Replica) bool { return other.Backend == r.Backend })
	if at < 0 {
		s.Replicas = append(s.Replicas, r)
		return
	}
	total := &s.Replicas[at]
	total.Shards, total.Of, total.CanPublish = total.Shards+r.Shards, total.Of+r.Of, total.CanPublish && r.CanPublish
	total.CannotPublishTo = slices.Concat(total.CannotPublishTo, r.CannotPublishTo)
}

// Members are the replicas that take part in the ownership of a group of destinations.
type Members struct {
	outbox.Group
	Stranger *outbox.Stranger // the only destination of the group, if it is not configured; otherwise nil
	Replicas []owner.Replica
}

// MembersOf lists the replicas of each group: of the configured destinations, and of others whose state the table
// keeps.
func MembersOf(ctx context.Context, conn *pgx.Conn, table *outbox.Table) (all []Members, err error) {
	for _, g := range table.Groups() {
		all = append(all, Members{Group: g})
	}
	for _, s := range table.Strangers() {
		all = append(all, Members{Group: outbox.Group{Column: s.Column, Names: []string{s.String()}}, Stranger: &s})
	}
	columns := make([]string, len(all))
	for i, m := range all {
		columns[i] = m.Column
	}
	found, err := owner.Replicas(ctx, conn, table.Name(), columns...)
	if err != nil {
		return nil, fmt.Errorf("look at the replicas: %w", err)
	}
	for i := range all {
		all[i].Replicas = found[i]
	}
	return all, nil
}

// members is [MembersOf] the table.
func (o *Outbox) members(ctx context.Context) ([]Members, error) {
	conn, err := o.Pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to database: %w", err)
	}
	defer conn.Release()
	return MembersOf(ctx, conn.Conn(), o.Views[0].Table)
}

// replicasOf lists the replicas that take part in the ownership of a view's group.
func replicasOf(all []Members, view View) (replicas []owner.Replica) {
	for _, m := range all {
		if m.Column == view.Table.GroupColumn() {
			replicas = append(replicas, m.Replicas...)
		}
	}
	return replicas
}

// Strangers returns an error that names the destinations that are not configured and whose state the table keeps, nil
// if there are none. Whatever deletes rows has to ask: such a destination may not have done them.
func (o *Outbox) Strangers() error {
	var destinations, columns []string
	for _, s := range o.Views[0].Table.Strangers() {
		destinations, columns = append(destinations, s.String()), append(columns, s.Columns...)
	}
	if len(columns) == 0 {
		return nil
	}
	return fmt.Errorf("table %s keeps the state of destinations that are not configured here (%s), in the columns %s: "+
		"configure these destinations, or drop their columns if they are gone for good",
		o.base().Quoted(), strings.Join(destinations, ", "), strings.Join(columns, ", "))
}
