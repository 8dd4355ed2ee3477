package outbox

import "strings"

// Together returns the table with whose Settle accepted rows are marked in the columns of several views, which costs
// the database little more than marking them in one. A mark that exists already stays as it is. No view deletes its
// rows, and the rows are those of the first one.
func Together(views []*Table) *Table {
	var marks, relayed []string
	for _, v := range views {
		c := v.mapping.Relayed
		relayed = append(relayed, c.Name)
		marks = append(marks, c.Name+" = coalesce("+c.Name+", "+c.Now()+")")
	}
	t := *views[0]
	t.description = t.description.with("write", "update "+t.Quoted()+" set "+strings.Join(marks, ", "),
		"unmarked", "num_nulls("+strings.Join(relayed, ", ")+") > 0")
	return &t
}
