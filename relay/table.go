package relay

import (
	"context"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// Table is what the relay needs of an outbox table; [outbox.Table] is it, and the tests' simulation.
type Table interface {
	Read(context.Context, outbox.Query) (outbox.Page, error)
	Failed(context.Context, outbox.Query) (outbox.FailedPage, error)
	Settle(context.Context, []*outbox.Row) error
	SettleFree(context.Context, []*outbox.Row) (locked []string, err error)
	Refuse(context.Context, []outbox.Refusal) (written, locked []string, err error)

	Before(p, q outbox.Position) bool // in table order, as far as ordinals and ids tell

	Ordinal() bool       // positions have ordinals
	Ranked() bool        // new rows may come before older ones
	Delays() bool        // rows can become due later, and are found by reads in table order
	ReadsDue() bool      // rows with available_at have a read of their own
	OrderIndexed() bool  // rows can be read in table order at little cost, whatever their priority
	KeyIndexed() bool    // pending rows are found by their keys at little cost
	KeepsFailures() bool // rows can fail
	KeepsAttempts() bool // tries are counted
	KeepsErrors() bool   // why a row was refused is written
}

var _ Table = (*outbox.Table)(nil)
