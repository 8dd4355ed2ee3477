package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/sql"
)

// partition is a part of the table for a range of insert times.
type partition struct {
	Name      string
	Low, High time.Time
}

// drop drops the partitions that ended before the cutoff and whose rows are all done. Partitions of a table without a
// function for dropping them are kept: their rows are deleted. With a selection, all partitions are kept.
func (p *Prune) drop(ctx context.Context, cutoff time.Time) error {
	n := p.Outbox.base()
	if !n.Partitioned || !p.Selection.IsZero() || !n.Inserted.Has() {
		return nil
	}
	function := sql.DropPartition(p.Outbox.Views[0].Table.Named())
	rows, _ := p.Outbox.Pool.Query(ctx, sql.Text("partitions.sql", nil), n.Table, cutoff,
		function+"(regclass, timestamptz, boolean)") // CollectRows returns the error
	partitions, err := pgx.CollectRows(rows, pgx.RowToStructByPos[partition])
	if err != nil {
		return fmt.Errorf("list partitions: %w", err)
	}
	for _, part := range partitions {
		if ctx.Err() != nil { // the rest is left for the next time
			return nil
		}
		if err := p.dropOne(ctx, n, part, function, cutoff); err != nil {
			return fmt.Errorf("drop partition %s: %w", part.Name, err)
		}
	}
	return nil
}

// partitionTime bounds the examination of a partition.
const partitionTime = 10 * time.Minute

func (p *Prune) dropOne(ctx context.Context, n outbox.Names, part partition, function string, cutoff time.Time) error {
	within := func(do func(pgx.Tx) error) error {
		return within(ctx, p.Outbox.Pool, limits{statement: partitionTime}, do)
	}
	undone := true
	names := map[string]string{
		"table": n.Table, "inserted_at": n.Inserted.Name, "low": n.Inserted.At("$1"), "high": n.Inserted.At("$3"),
		"done": p.done(),
	}
	err := within(func(tx pgx.Tx) error { // the function knows the destinations that were configured when it was created
		return tx.QueryRow(ctx, sql.Text("partition_undone.sql", names), part.Low, cutoff, part.High).Scan(&undone)
	})
	if err != nil || undone {
		return err
	}
	dropped := p.DryRun
	if !dropped {
		err = within(func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, sql.Text("partition_drop.sql", map[string]string{"function": function}), part.Name,
				cutoff, p.Failed).Scan(&dropped)
		})
	}
	if dropped && p.Dropped != nil {
		p.Dropped(part.Name)
	}
	return err
}
