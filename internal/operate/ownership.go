package operate

import (
	"context"
	"fmt"

	"github.com/outbox-relay/outbox-relay/internal/owner"
)

// Ownership reads from the advisory locks which replicas relay.
func (o *Outbox) Ownership(ctx context.Context) (*Ownership, error) {
	found, err := o.replicas(ctx)
	if err != nil {
		return nil, err
	}
	var owned owner.Set
	result := &Ownership{Shards: o.Shards, Replicas: []Replica{}}
	for i, r := range found {
		owned = owned.Or(r.Owned)
		if i == 0 && r.Owned.Len() > 0 {
			result.Shards = r.Of
		}
		result.Replicas = append(result.Replicas, Replica{Backend: r.Backend, Shards: r.Owned.Len(), Of: r.Of, CanPublish: r.Able})
	}
	result.Owned = owned.Len()
	result.Unowned = max(result.Shards-result.Owned, 0)
	return result, nil
}

// replicas lists the replicas that take part in the ownership.
func (o *Outbox) replicas(ctx context.Context) ([]owner.Replica, error) {
	conn, err := o.Pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to database: %w", err)
	}
	defer conn.Release()
	found, err := owner.Replicas(ctx, conn.Conn(), o.Views[0].Table.Name())
	if err != nil {
		return nil, fmt.Errorf("look at the replicas: %w", err)
	}
	return found, nil
}
