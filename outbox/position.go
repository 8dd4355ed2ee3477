package outbox

// A Position is a place in table order: a row's priority, order value and id. The zero Position is
// before every row.
type Position struct {
	rank  string // binary value of the rank column, when the table has a priority
	order string // binary value of the order column
	id    string
	// nulls: among the rows without an order value, which come first.
	nulls bool
	// Ordinal is the order value as a number that grows with table order, if the table's order
	// column has such values (see [Table.Ordinal]).
	Ordinal int64
}

// IsZero reports whether p is before every row.
func (p Position) IsZero() bool { return p == Position{} }
