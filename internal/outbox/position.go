package outbox

// A Position is a place in table order: a row's priority, order value and id. The zero Position is
// before every row.
type Position struct {
	due   string // binary value of available_at, for rows that are read by that time
	rank  string // binary value of the rank column, if the table has a priority
	order string // binary value of the order column
	id    string
	// nulls says that the row has no order value. Such rows come first.
	nulls bool
	// Ordinal is the order value as a number that grows with table order, if the table's order
	// column has such values (see [Table.Ordinal]).
	Ordinal int64
}

// IsZero reports whether p is before every row.
func (p Position) IsZero() bool { return p == Position{} }

// Unordered reports whether the row has no order value. Such rows come before all others.
func (p Position) Unordered() bool { return p.nulls }

// At returns the position of a row with this ordinal and id, for rows that do not come from PostgreSQL.
func At(ordinal int64, id string) Position { return Position{Ordinal: ordinal, id: id} }

// AtNull returns the position of a row without an order value, for rows that do not come from PostgreSQL.
func AtNull(id string) Position { return Position{id: id, nulls: true} }

// Before reports whether p comes before q in table order, as far as this is known without the database: by their ordinals, and
// if these are equal by ids that are numbers or uuids. How the database sorts text depends on its collation.
func (t *Table) Before(p, q Position) bool {
	if p.Ordinal != q.Ordinal || len(p.id) != len(q.id) {
		return p.Ordinal < q.Ordinal
	}
	switch t.idOID {
	case oidUUID:
		return p.id < q.id
	case oidInt2, oidInt4, oidInt8:
		return ordinal([]byte(p.id)) < ordinal([]byte(q.id))
	}
	return false
}

// Before reports whether p comes before q by ordinal and id alone, for rows that do not come from
// PostgreSQL.
func (p Position) Before(q Position) bool {
	return p.Ordinal < q.Ordinal || p.Ordinal == q.Ordinal && p.id < q.id
}
