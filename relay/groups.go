package relay

import (
	"slices"
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
)

// groups returns the groups of destinations whose shards this replica may own, and those that other deployments may
// relay: the table has columns for them, and this configuration does not name them. A group has the destinations that
// keep their state in the same columns, and shards of its own. With shards of the whole table, a replica owned rows of
// destinations that it did not know: of two deployments with one destination each, either relayed half of its rows, and
// the rest waited in silence.
func (r *Relay) groups(table *outbox.Table) (groups []*owner.Group) {
	for _, g := range table.Groups() {
		groups = append(groups, &owner.Group{
			Column: g.Column, Name: strings.Join(g.Names, ", "), Mapping: g.Mapping,
			Unable: func() bool { return r.cannotPublish(g.Column) },
		})
	}
	for _, s := range table.Strangers() {
		if s.Name == "" || s.Column != "" {
			groups = append(groups, &owner.Group{Column: s.Column, Name: s.String()})
		}
	}
	return groups
}

// cannotPublish reports whether this replica cannot publish to the destinations of a group: one that is not paused
// cannot be used. Other replicas may be able to publish. Best-effort destinations count only among themselves.
func (r *Relay) cannotPublish(column string) bool {
	optional := r.optional(column)
	return slices.ContainsFunc(r.config.Destinations, func(d *Destination) bool {
		return d.group() == column && d.Optional == optional && !d.paused.Load() && d.unusable() != nil
	})
}

// optional reports whether all destinations of a group are best effort.
func (r *Relay) optional(column string) bool {
	return !slices.ContainsFunc(r.config.Destinations, func(d *Destination) bool {
		return d.group() == column && !d.Optional
	})
}

// group returns the column by which the group of the destination is known; see [owner.Group].
func (d *Destination) group() string { return d.Columns["relayed_at"] }

// owned returns how many shards this replica holds, also those that it is to release. Destinations with columns of
// their own have shards of their own, so the number may be larger than that of the configuration.
func (r *Relay) owned() (shards int) {
	states, _ := r.owner.States()
	for _, s := range states {
		shards += s.Owned.Len() + s.Leaving.Len()
	}
	return shards
}

// ownsEverything reports whether this replica owns all shards of the table.
func (r *Relay) ownsEverything() bool {
	states, _ := r.owner.States()
	return len(states) > 0 &&
		!slices.ContainsFunc(states, func(s owner.State) bool { return s.Owned.Len() < r.config.Shards })
}

// unowned returns how many shards no replica holds, or -1 if that is not known. A group that no replica relays counts
// with all of its shards.
func (r *Relay) unowned() (shards int) {
	if r.owner.Replicas() == 0 {
		return -1
	}
	states, _ := r.owner.States()
	for _, s := range states {
		shards += s.Unowned
	}
	return shards
}
