package relay

import (
	"context"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/dispatch"
	"github.com/outbox-relay/outbox-relay/relay/internal/feed"
	"github.com/outbox-relay/outbox-relay/relay/internal/settle"
)

// Table is what the relay needs of an outbox table. [outbox.Table] implements it, and so does the tests' simulation.
type Table interface {
	feed.Order
	dispatch.Table
	settle.Table

	Read(context.Context, outbox.Query) (outbox.Page, error)
	Failed(context.Context, outbox.Query) (outbox.FailedPage, error)
	ReadsDue() bool // whether rows with available_at have a read of their own
}

var _ Table = (*outbox.Table)(nil)
