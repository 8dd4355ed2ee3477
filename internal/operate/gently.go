package operate

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Rows that become pending again must reach a relay in order, at least those of one key. A relay reads the end of the
// table many times a second and takes what it finds there at once; what lies before the end it finds in a sweep, and
// then reads each key from its first row. So a row at the end would overtake those of its key before the end. Therefore
// the very last row, which is always part of the end, is changed last, when the rows of its key before it have been
// relayed, and none is changed while the last one was inserted a moment ago, because the start of the end moves with
// the inserts.

const (
	// young is how long a row may belong to the end of the table: the end begins at a mark that is up to five seconds
	// old and was made and completed by polls up to a second apart. A transaction that stays open longer moves it back.
	young = 10 * time.Second
	// aheadTime bounds how long the last rows wait for those before them, which may be held for hours. By then the
	// relay knows about them.
	aheadTime  = 90 * time.Second
	aheadEvery = 200 * time.Millisecond
)

// end returns the order value of the last row of a pick; it is empty if the pick's rows may be changed in any order. It
// returns when that row is young no longer, or early when ctx ends.
func (c *Choice) end(ctx context.Context, p pick, progress Progress) (order string, err error) {
	if !c.change.gently || p.rows == 0 || p.set.table.Key == "null::text" {
		return "", nil
	}
	owned, err := c.outbox.Ownership(ctx)
	if err != nil || len(owned.of(p.set.table)) == 0 { // a relay that starts later reads everything from the beginning
		return "", err
	}
	var inserted *time.Time
	row := c.conn.QueryRow(ctx, "fetch last from "+p.cursor)
	if err := row.Scan(nil, nil, nil, nil, &order, nil, nil, &inserted); err != nil {
		return "", fmt.Errorf("find the last row: %w", err)
	}
	// By the database's clock, which may be behind the times of insert.
	if inserted != nil && inserted.After(c.began.Add(-young)) {
		progress.Waits(fmt.Sprintf("rows of the last %v go later, so that their keys keep the order", young))
		pause(ctx, min(inserted.Sub(c.began)+young, young))
	}
	return order, nil
}

// settle waits until no row is pending that is of a key of the given rows and before them, for as long as that can take
// a relay. Rows that no destination of the set takes are never relayed. It returns early when ctx ends.
func (c *Choice) settle(ctx context.Context, s set, rows []Chosen, progress Progress) error {
	var keys, takers []string
	for _, row := range rows {
		if row.key != nil {
			keys = append(keys, *row.key)
		}
	}
	for _, i := range s.views {
		takers = append(takers, takes(c.outbox.Views[i]))
	}
	pending := s.table.Pending + " and (" + strings.Join(takers, " or ") + ")" + s.table.Ordered()
	statement := s.table.Text("operate_ahead.sql", "pending", pending)
	for begun, told := time.Now(), false; ctx.Err() == nil && time.Since(begun) < aheadTime; told = true {
		var ahead bool
		err := c.outbox.within(ctx, limits{statement: changeTime, inOrder: true}, func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, statement, keys, rows[0].order).Scan(&ahead)
		})
		if err != nil || !ahead {
			return err
		}
		if !told {
			progress.Waits("the last row goes when those of its key before it have been relayed")
		}
		pause(ctx, aheadEvery)
	}
	return nil
}
