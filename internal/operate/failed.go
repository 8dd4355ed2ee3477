package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// A FailedRow is a row that has failed and was neither retried nor discarded since. The names of its JSON fields are
// stable.
type FailedRow struct {
	ID          string     `json:"id"`
	Destination string     `json:"destination"`
	Topic       string     `json:"topic"`
	Key         *string    `json:"key"`
	Attempt     *int64     `json:"attempt"`
	InsertedAt  *time.Time `json:"inserted_at"`
	FailedAt    time.Time  `json:"failed_at"`
	LastError   *string    `json:"last_error"`
	// Headers are the headers as text; only if content was requested, like Payload.
	Headers *string `json:"headers,omitempty"`
	Payload *string `json:"payload,omitempty"`
}

// Failed calls a function for each failed row of a selection, for at most that many rows, the latest failure first. It
// goes through the sets of destinations one by one. With content it reads headers and payloads.
func (o *Outbox) Failed(ctx context.Context, selection Selection, most int64, content bool, do func(FailedRow) error,
) error {
	picks, err := o.pick(selection, failed)
	if err != nil {
		return err
	}
	for _, p := range picks {
		names := []string{"taker", o.taker(p.set), "state", p.where(), "most", p.values.add(most)}
		if !content {
			names = append(names, "payload", "null::text", "headers", "null::text")
		}
		err := o.within(ctx, limits{statement: chooseTime}, func(tx pgx.Tx) error {
			// The rows have its error.
			rows, _ := tx.Query(ctx, p.set.table.Text("operate_failed.sql", names...), *p.values...)
			var row FailedRow
			var taken int
			_, err := pgx.ForEachRow(rows, []any{
				&row.ID, &taken, &row.Topic, &row.Key, &row.Attempt, &row.InsertedAt, &row.FailedAt, &row.LastError,
				&row.Headers, &row.Payload,
			}, func() error {
				most--
				row.Destination = o.nameOf(taken)
				return do(row)
			})
			return err
		})
		if err != nil {
			return fmt.Errorf("list failed rows: %w", err)
		}
	}
	return nil
}
