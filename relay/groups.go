package relay

import (
	"errors"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
)

// groups returns the groups of destinations whose shards this replica may own. A group has the destinations that keep
// their state in the same columns, and shards of its own. With shards of the whole table, a replica owned rows of
// destinations that it did not know: of two deployments with one destination each, either relayed half of its rows, and
// the rest waited in silence.
func (r *Relay) groups(table *outbox.Table) (groups []*owner.Group) {
	for _, g := range table.Groups() {
		groups = append(groups, &owner.Group{
			Column: g.Column, Name: strings.Join(g.Names, ", "), Mapping: g.Mapping,
			Unable: func() error { return r.cannotPublish(g.Column) },
		})
	}
	return groups
}

// strangers returns the groups of destinations that other deployments may relay: the table has columns for them, and
// this configuration does not name them.
func strangers(table *outbox.Table) (groups []owner.Stranger) {
	for _, s := range table.Strangers() {
		if s.Name == "" || s.Column != "" {
			groups = append(groups, owner.Stranger{Column: s.Column, Name: s.String()})
		}
	}
	return groups
}

// cannotPublish returns why this replica cannot publish to the destinations of a group: one that is not paused cannot
// be used. Other replicas may be able to publish. Best-effort destinations count only among themselves.
func (r *Relay) cannotPublish(column string) error {
	var errs []error
	optional := r.optional(column)
	for _, d := range r.config.Destinations {
		if d.group() == column && d.Optional == optional && !d.paused.Load() {
			errs = append(errs, d.unusable())
		}
	}
	return errors.Join(errs...)
}

// optional reports whether all destinations of a group are best effort.
func (r *Relay) optional(column string) bool {
	return !slices.ContainsFunc(r.config.Destinations, func(d *Destination) bool {
		return d.group() == column && !d.Optional
	})
}

// group returns the column by which the group of the destination is known; see [owner.Group].
func (d *Destination) group() string { return d.Columns["relayed_at"] }

// holds reports whether shards of any group are held.
func holds(states []owner.State) bool { return slices.ContainsFunc(states, owner.State.Holds) }

// ownsEverything reports whether this replica owns all shards of the table.
func (r *Relay) ownsEverything() bool {
	states, _ := r.owner.States()
	table, _ := r.state()
	return table != nil && len(table.Strangers()) == 0 && len(states) > 0 &&
		!slices.ContainsFunc(states, func(s owner.State) bool { return s.Owned.Len() < r.config.Shards })
}

// unowned returns how many shards no replica holds, if that is known. A group that no replica relays counts with all of
// its shards.
func (r *Relay) unowned() (shards int, known bool) {
	states, _ := r.owner.States()
	for _, s := range states {
		shards, known = shards+s.Unowned, known || s.Replicas > 0
	}
	return shards + len(r.owner.Unserved())*r.config.Shards, known
}
