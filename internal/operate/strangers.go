package operate

import (
	"fmt"
	"strings"
)

// A StrangersError says that the table has columns that keep the state of destinations that are not configured, so that
// a row may not be done there.
type StrangersError struct {
	Table        string
	Columns      []string
	Destinations []string
}

func (e *StrangersError) Error() string {
	return fmt.Sprintf("table %s keeps the state of destinations that are not configured here (%s), in the columns %s: "+
		"configure these destinations, or drop their columns if they are gone for good",
		e.Table, strings.Join(e.Destinations, ", "), strings.Join(e.Columns, ", "))
}

// Strangers returns the destinations that are not configured and whose state the table keeps, nil if there are none.
// Whatever deletes rows has to ask: such a destination may not have done them.
func (o *Outbox) Strangers() *StrangersError {
	e := &StrangersError{Table: o.base().Table}
	for _, s := range o.Views[0].Table.Strangers() {
		e.Destinations, e.Columns = append(e.Destinations, s.String()), append(e.Columns, s.Columns...)
	}
	if len(e.Columns) == 0 {
		return nil
	}
	return e
}
