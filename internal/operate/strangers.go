package operate

import (
	"fmt"
	"strings"
)

// Strangers returns an error that names the destinations that are not configured and whose state the table keeps, nil
// if there are none. Whatever deletes rows has to ask: such a destination may not have done them.
func (o *Outbox) Strangers() error {
	var destinations, columns []string
	for _, s := range o.Views[0].Table.Strangers() {
		destinations, columns = append(destinations, s.String()), append(columns, s.Columns...)
	}
	if len(columns) == 0 {
		return nil
	}
	return fmt.Errorf("table %s keeps the state of destinations that are not configured here (%s), in the columns %s: "+
		"configure these destinations, or drop their columns if they are gone for good",
		o.base().Table, strings.Join(destinations, ", "), strings.Join(columns, ", "))
}
