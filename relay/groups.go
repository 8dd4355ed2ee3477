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
// cannot be used. Other replicas may be able to publish. Best-effort destinations do not count.
func (r *Relay) cannotPublish(column string) bool {
	return slices.ContainsFunc(r.config.Destinations, func(d *Destination) bool {
		return d.group() == column && !d.Optional && !d.paused.Load() && d.unusable() != nil
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

// unowned returns how many shards no replica holds. A group that no replica relays counts with all of its shards.
func (r *Relay) unowned() (shards int) {
	states, _ := r.owner.States()
	for _, s := range states {
		shards += s.Unowned
	}
	return shards
}
