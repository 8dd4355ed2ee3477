package outbox

// A Position is a place in table order: a row's priority, order value and id. The zero Position is before every row.
type Position struct {
	values [4]string // binary values
	// nulls says that the row has no order value. Such rows come first.
	nulls bool
	// Ordinal is the order value as a number that grows with table order, if the table's order column has such values
	// (see [Table.Ordinal]).
	Ordinal int64
}

// Places of the values in a position; those of columns that the order does not need are empty.
const (
	dueValue   = iota // available_at, for rows that are read by that time
	firstValue        // the priority, or failed_at where failed rows are read
	orderValue
	idValue
)

// IsZero reports whether p is before every row.
func (p Position) IsZero() bool { return p == Position{} }

// At returns the position of a row with this ordinal and id, for rows that do not come from PostgreSQL.
func At(ordinal int64, id string) Position {
	return Position{Ordinal: ordinal, values: [4]string{idValue: id}}
}

// Before reports whether p comes before q by ordinal and id alone, for rows that do not come from PostgreSQL.
func (p Position) Before(q Position) bool {
	return p.Ordinal < q.Ordinal || p.Ordinal == q.Ordinal && p.values[idValue] < q.values[idValue]
}
