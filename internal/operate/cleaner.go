package operate

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/sql"
)

// A Cleaner deletes old rows while replicas relay, in one replica at a time. Its fields are its configuration.
//
// It is gentle: it deletes at most a fifth of the time. It continues during outages, however long, since a table that
// grows without bound would cause the next one.
type Cleaner struct {
	Open    func(context.Context) (*Outbox, error)   // opens the table in its present form
	Connect func(context.Context) (*pgx.Conn, error) // not through a pooler
	After   time.Duration
	Logger  *slog.Logger
}

const (
	cleanRest    = 4       // length of the pause after a transaction, as a multiple of the transaction's duration
	cleanRows    = 100_000 // number of rows that are looked for at once, which bounds the time of a snapshot
	cleanEvery   = 10 * time.Minute
	cleanSoonest = time.Second
)

// Run deletes old rows again and again until ctx ends.
func (c *Cleaner) Run(ctx context.Context) {
	for reported := ""; ctx.Err() == nil; {
		text := ""
		if err := c.clean(ctx); err != nil && ctx.Err() == nil {
			if text = errtext.Line(err); text != reported {
				c.Logger.Warn("old rows cannot be deleted", "error", err)
			}
		}
		reported = text
		select {
		case <-ctx.Done():
		case <-time.After(max(min(c.After/10, cleanEvery), cleanSoonest)):
		}
	}
}

// clean deletes the rows that are old now, unless another replica is doing so.
func (c *Cleaner) clean(ctx context.Context) error {
	o, err := c.Open(ctx)
	if err != nil {
		return err
	}
	conn, err := c.Connect(ctx)
	if err != nil {
		return fmt.Errorf("connect to database: %w", err)
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ending) // this releases the lock
	}()
	class, object := owner.CleaningLock(o.Views[0].Table.Name())
	var alone bool
	if err := conn.QueryRow(ctx, sql.Text("prune_lock.sql", nil), class, object).Scan(&alone); err != nil {
		return fmt.Errorf("look for others that delete old rows: %w", err)
	}
	if !alone {
		return nil
	}
	// If the session that holds the lock ends meanwhile, another replica may begin as well: both skip the rows that the
	// other one has locked.
	begun := time.Now()
	change := Prune(c.After, false)
	change.Rest, change.most = cleanRest, cleanRows
	deleted, more := int64(0), true
	for more && err == nil && ctx.Err() == nil {
		var choice *Choice
		var result Result
		if choice, err = o.Choose(ctx, conn, change, Selection{}); err == nil {
			result, err = choice.Apply(ctx, "", Progress{})
		}
		deleted += result.Changed
		more = result.Changed > 0 && choice.Rows() == cleanRows
	}
	if deleted > 0 {
		c.Logger.Info("deleted old rows", "rows", deleted, "seconds", int(time.Since(begun).Seconds()))
	}
	return err
}
