package outbox

import (
	"fmt"
	"math"
	"strconv"

	"github.com/jackc/pgx/v5/pgtype"
)

// bounds limit, in SQL, how much of a row the server sends, so that oversized values use neither memory nor network. A
// page's rows come with payload and headers as long as these are small. For larger values only the sizes come; those
// rows are then read whole by their ids, as many as there is room for ([Table.contents]).
//
// PostgreSQL knows the size of a stored text or bytea, and the space any value takes, without fetching the value from
// TOAST. How long JSON is as text is only known when it has been written as text, so that is done once where it may be
// long, unless the space that it takes shows that it is too long for a page.
type bounds uint8

const (
	withPage  bounds = iota
	wholeRows        // the size of a text is measured exactly
	bare             // no contents are read
)

// mostBytes is the SQL expression for the bytes that a row, or any part of it, may take.
const mostBytes = "$3::bigint"

const (
	// leastInPage and mostInPage bound how much of a row is read with its page. A thousand rows of leastInPage bytes
	// are harmless. JSON of mostInPage bytes, expanded and written as text, still fits into memory.
	leastInPage = 16 << 10
	mostInPage  = 64 << 10
	// mostJSON is the largest JSON whose text is sent without being measured. 1e131071 takes a few bytes as jsonb,
	// and 131,072 as text.
	mostJSON = 2 << 10
	// usualCompression is the approximate ratio of JSON's size to its compressed size.
	usualCompression = 4
	// maxText is the largest number of characters that are read of a topic, a key or a header's column.
	maxText = 1 << 20
	// shortText is how many bytes such a text may always have. JSON that is compressed to a fourth of it can be written
	// as text, whatever it holds.
	shortText = 1 << 10
)

// boundedText bounds an expression of type text. A longer text is cut, which its length shows. To cut a text, the
// server counts its characters, which cost half a microsecond for each row. It knows the length of a stored text, and
// sends a short one unchanged.
func boundedText(expression string) string {
	cut := fmt.Sprintf("left(%s, least(%s, %d)::integer)", expression, mostBytes, maxText)
	return fmt.Sprintf("case when octet_length(%[1]s) <= %[2]d then %[1]s else %[3]s end", expression, shortText, cut)
}

// cut reports whether a received text may have been cut.
func cut(value []byte, most int64) bool { return int64(len(value)) >= min(most, maxText) }

// value and rest are the two columns of a payload or headers. The value comes in the first column if it is certainly
// small. Nearly every value is, and finding that out twice costs less than converting the value. Otherwise the second
// column holds either JSON that had to be written as text to be measured, or the size of a value that is left out: a
// sizeMark and a number.
func (b bounds) value(c Column) string {
	switch {
	case !c.Has():
		return "null::text"
	case b == bare: // null of the column's type
		return "case when false then " + c.Name + " end"
	}
	return fmt.Sprintf("case when not (%s) then %s end", doubtful(c), c.Name)
}

func (b bounds) rest(c Column) string {
	rest := fmt.Sprintf("'%c' || octet_length(%s)", sizeMark, c.Name)
	switch {
	case !c.Has(), b == bare:
		return "null::text"
	case b == wholeRows && isJSON(c):
		rest = measured(c)
	case isJSON(c):
		const sized = "case when %[1]s is null then pg_column_size(%[2]s) > %[3]s " +
			"else pg_column_size(%[2]s) > %[3]s / %[4]d end then '%[5]c' || pg_column_size(array[%[2]s])"
		compressed := "pg_column_compression(" + c.Name + ")"
		rest = fmt.Sprintf("case when "+sized+" else %[6]s end", compressed, c.Name, mostBytes, usualCompression,
			sizeMark, measured(c))
	}
	return fmt.Sprintf("case when %s then %s end", doubtful(c), rest)
}

// doubtful is the condition for a value that may be large: its text may be long if it is JSON. The condition is not
// true for NULL.
func doubtful(c Column) string {
	if !isJSON(c) {
		return fmt.Sprintf("octet_length(%s) > %s", c.Name, mostBytes)
	}
	return fmt.Sprintf("pg_column_size(%[1]s) > %[2]d or pg_column_compression(%[1]s) is not null", c.Name, mostJSON)
}

// measured is JSON, written as text once, or the length of that text.
func measured(c Column) string {
	return fmt.Sprintf("(select case when octet_length(v) > %s then '%c' || octet_length(v) else v end from (select "+
		"%s as v offset 0) written)", mostBytes, sizeMark, written(c))
}

// sizeMark begins a size that stands in the place of JSON. JSON never begins with it.
const sizeMark = '#'

// sizeOf returns the size that came in the place of a value, or 0 if the value came.
func sizeOf(rest []byte) int64 {
	if len(rest) == 0 || rest[0] != sizeMark {
		return 0
	}
	size, err := strconv.ParseInt(string(rest[1:]), 10, 64)
	if err != nil { // no server sends this
		return math.MaxInt32
	}
	return max(size, 1)
}

// missing returns the approximate size of a row that did not come whole, or 0 if it did. A row one of whose texts was
// cut is larger than most.
func (t *Table) missing(values [][]byte, most int64) int64 {
	size, long := sizeOf(values[atPayloadRest])+sizeOf(values[atHeadersRest]), cut(values[atTopic], most)
	for _, value := range values[atExtra:] {
		long = long || cut(value, most)
	}
	if long || cut(values[atKey], most) {
		size += most + 1
	}
	if size == 0 {
		return 0
	}
	return size + int64(len(values[atPayload])+len(values[atHeaders]))
}

func isJSON(c Column) bool { return c.OID == pgtype.JSONOID || c.OID == pgtype.JSONBOID }

// written is JSON as text. The functions are specific to the column's type: if the type has changed to one that is
// written differently, the statement fails, and the table is opened again. A cast to text would accept any type.
func written(c Column) string {
	if c.OID == pgtype.JSONOID {
		return "json_out(" + c.Name + ")::text"
	}
	return "jsonb_out(" + c.Name + ")::text"
}
