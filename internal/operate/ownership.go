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

// OwnershipOf reads from the advisory locks which replicas relay: the groups of the configured destinations, and others
// whose state the table keeps. shards is the number of shards of a group in which no replica owns any.
func OwnershipOf(ctx context.Context, conn *pgx.Conn, table *outbox.Table, shards int) (*Ownership, error) {
	total := &Ownership{Shares: Shares{Replicas: []Replica{}}, Groups: []Group{}}
	for _, g := range table.Groups() {
		total.Groups = append(total.Groups, Group{Group: g, Configured: true})
	}
	for _, s := range table.Strangers() {
		g := outbox.Group{Column: s.Column, Names: []string{s.String()}}
		total.Groups = append(total.Groups, Group{Group: g, Stranger: &s})
	}
	columns := make([]string, len(total.Groups))
	for i, g := range total.Groups {
		columns[i] = g.Column
	}
	found, err := owner.Replicas(ctx, conn, table.Name(), columns...)
	if err != nil {
		return nil, fmt.Errorf("look at the replicas: %w", err)
	}
	for i := range total.Groups {
		g := &total.Groups[i]
		g.Shares = Shares{Shards: shards, Replicas: []Replica{}}
		var owned owner.Set
		for _, r := range found[i] {
			owned = owned.Or(r.Owned)
			replica := Replica{
				Replica: r, Backend: r.Backend, Shards: r.Owned.Len(), Of: r.Of(), CanPublish: r.Able(),
			}
			g.Replicas = append(g.Replicas, replica)
			total.add(replica)
		}
		if len(g.Replicas) > 0 && g.Replicas[0].Shards > 0 { // the one with the most comes first
			g.Shards = g.Replicas[0].Of
		}
		g.Owned = owned.Len()
		g.Unowned = max(g.Shards-g.Owned, 0)
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
}

// Ownership is [OwnershipOf] the table.
func (o *Outbox) Ownership(ctx context.Context) (*Ownership, error) {
	conn, err := o.Pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to database: %w", err)
	}
	defer conn.Release()
	return OwnershipOf(ctx, conn.Conn(), o.Views[0], o.Shards)
}

// of lists the replicas that take part in the ownership of a view's group.
func (o *Ownership) of(view *outbox.Table) []Replica {
	for _, g := range o.Groups {
		if g.Column == view.GroupColumn() {
			return g.Replicas
		}
	}
	return nil
}

// Strangers returns an error that names the destinations that are not configured and whose state the table keeps, nil
// if there are none. Whatever deletes rows has to ask: such a destination may not have done them.
func (o *Outbox) Strangers() error {
	var destinations, columns []string
	for _, s := range o.Views[0].Strangers() {
		destinations, columns = append(destinations, s.String()), append(columns, s.Columns...)
	}
	if len(columns) == 0 {
		return nil
	}
	return fmt.Errorf("table %s keeps the state of destinations that are not configured here (%s), in the columns %s: "+
		"configure these destinations, or drop their columns if they are gone for good",
		o.Views[0].Quoted(), strings.Join(destinations, ", "), strings.Join(columns, ", "))
}
