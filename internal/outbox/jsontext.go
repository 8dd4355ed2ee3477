package outbox

import (
	"fmt"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outbox-relay/outbox-relay/sql"
)

// jsonText is the SQL for the text at a place in a JSON column; place is an operator with its operand.
//
// The type json keeps escapes that no text can hold: \u0000 and half of a surrogate pair. The type jsonb refuses them
// at the insert. Extracting anything from such a document fails the statement, wherever the escapes are, and one row
// would stop every read. So the SQL replaces such escapes by a question mark before it extracts. The key of such a row
// is then the same in each replica. The message's payload and headers stay unchanged.
func jsonText(c Column, place string) string {
	name := c.Name
	plain := name + " " + place
	if c.OID != pgtype.JSONOID {
		return "(" + plain + ")"
	}
	text := name + "::text"
	// A backslash; a whole pair.
	allowed := sql.Literal(`\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}`)
	denied := sql.Literal(`\\u(0000|[dD][89a-fA-F])`)
	each := sql.Literal(`((?<!\\)(?:\\\\)*)\\u(?:0000|[dD][89a-fA-F][0-9a-fA-F]{2})`)
	return fmt.Sprintf(`(case when strpos(%[1]s, %[2]s) = 0 then %[3]s `+
		`when regexp_replace(%[1]s, %[4]s, '', 'g') !~ %[5]s then %[3]s `+
		`else regexp_replace(%[1]s, %[6]s, %[7]s, 'g')::json %[8]s end)`,
		text, sql.Literal(`\u`), plain, allowed, denied, each, sql.Literal(`\1?`), place)
}
