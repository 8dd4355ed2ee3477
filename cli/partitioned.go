package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/pattern"
	"github.com/outbox-relay/outbox-relay/sql"
)

// undone is the condition for rows that keep a partition: $1 is the cutoff, and $2 whether failed rows count as done. A
// row that is not done in the columns of the table keeps the partition, whichever destination takes it. So does a row
// that a destination with columns of its own has not done, unless the destination is best effort. column gives the
// table's name of a column by the relay's.
func undone(seen []outbox.View, column func(string) string) string {
	state := func(v *outbox.View, ours string) string {
		if v.Columns == nil {
			return sql.Quote(column(ours))
		}
		if theirs := v.Columns[ours]; theirs != "" {
			return sql.Quote(theirs)
		}
		return "null::timestamptz"
	}
	open := func(v *outbox.View) string {
		return fmt.Sprintf("coalesce(%s, case when $2 then %s end, 'infinity') >= $1", state(v, "relayed_at"), state(v,
			"failed_at"))
	}
	var conditions []string
	if slices.ContainsFunc(seen, func(v outbox.View) bool { return v.Columns == nil }) {
		conditions = append(conditions, open(&outbox.View{}))
	}
	required := slices.ContainsFunc(seen, func(v outbox.View) bool { return !v.Optional })
	for i := range seen {
		v := &seen[i]
		switch {
		case v.Optional && required: // nothing waits for it
		case v.FailedOf != nil:
			conditions = append(conditions, fmt.Sprintf("%s is null and %s is null and %s is not null",
				state(v, "relayed_at"), state(v.FailedOf, "relayed_at"), state(v.FailedOf, "failed_at")))
		case v.RelayedOf != nil:
			conditions = append(conditions, fmt.Sprintf("%s is null and %s is not null and %s is null",
				state(v, "relayed_at"), state(v.RelayedOf, "relayed_at"), state(v.RelayedOf, "failed_at")))
		case v.Columns != nil:
			conditions = append(conditions, fmt.Sprintf("(%s) and %s", pattern.SQL(pattern.Text(sql.Quote(column("topic"))),
				v.Topics), open(v)))
		}
	}
	return strings.Join(conditions, " or ")
}
