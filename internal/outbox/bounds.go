package outbox

import (
	"fmt"
	"math"
	"strconv"

	"github.com/outbox-relay/outbox-relay/sql"
)

// bounds say in SQL what of a row is sent, so that neither memory nor the line has to carry what nobody takes. A page's rows come
// with their bodies, payload and headers, as far as these are small; of the others only the sizes come, and they are
// read whole by their ids, as many as there is room for ([Table.complete]).
//
// PostgreSQL tells how large a text or bytea is, and how much room any value takes, without fetching it from where large values are
// stored. JSON that is compressed has to be expanded for its size, so that is left to what compresses well enough to matter.
type bounds struct {
	most  string // an SQL expression: the bytes that a row, or any part of it, may take
	whole bool   // rows are read whole, and what they take as text is measured exactly
}

const (
	// leastInPage and mostInPage bound what is read of a row with the page that it is in. Rows of the former size, a thousand of them, are no
	// burden to anybody; JSON of the latter size, expanded and written as text, still fits into memory.
	leastInPage = 16 << 10
	mostInPage  = 64 << 10
	// compressed is by how much less than other values compressed JSON may take to be read with its page.
	compressed = 16
	// mostJSONB is what a jsonb may take to be sent without a look at its text. 1e131071 takes a few bytes there, and 131,072 as text.
	mostJSONB = 2 << 10
	// usualCompression is by how much JSON that was compressed is larger, about.
	usualCompression = 4
	// maxText is how many characters of a topic, a key, a header's column are read at the most.
	maxText = 1 << 20
	// shortText is how many bytes such a text may always have. JSON that is compressed to a fourth of it can be written as text, whatever it
	// holds.
	shortText = 1 << 10
)

// limited are the bounds of pages; the given parameter is what a row may take.
func (t *Table) limited(parameter int) bounds {
	return bounds{most: fmt.Sprintf("$%d::bigint", parameter)}
}

// whole are the bounds of rows that are read by their ids.
func (t *Table) whole(parameter int) bounds {
	return bounds{most: fmt.Sprintf("$%d::bigint", parameter), whole: true}
}

// inPage is what a row of a page may take to be sent with it.
func (t *Table) inPage(q Query) int64 {
	each := min(max(q.Bytes/int64(max(q.Limit, 1)), leastInPage), mostInPage)
	if q.apart {
		each = shortText
	}
	return max(min(each, t.maxRow/compressed), 1)
}

// text bounds an expression of type text: what is longer is cut, which is seen by its length. To cut a text, the server counts its
// characters. It knows the length of one that is stored, and sends a short one as it is.
func (b bounds) text(expression string, stored bool) string {
	cut := fmt.Sprintf("left(%s, least(%s, %d)::integer)", expression, b.most, maxText)
	if !stored {
		return cut
	}
	return fmt.Sprintf("case when octet_length(%[1]s) <= %[2]d then %[1]s else %[3]s end", expression, shortText, cut)
}

// cut reports whether a text that came may have been cut.
func cut(value []byte, most int64) bool { return int64(len(value)) >= min(most, maxText) }

// value and rest are the two columns of a payload or headers. The value comes in the first if it is certainly small. Nearly every one is,
// and to find that out twice costs less than to convert what comes as it is. Otherwise the second holds JSON that had to be written to see
// how long it is, or how much the value takes that does not come: a sizeMark, and a number.
func (b bounds) value(c *column) string {
	switch {
	case c == nil || b.whole && isJSON(c):
		return "null::text"
	case c.oid == oidJSONB:
		return fmt.Sprintf("case when not (%s) then %s end", doubtful(c), sql.Quote(c.name))
	default:
		return fmt.Sprintf("case when not (%s) then %s end", b.large(c), asText(c))
	}
}

func (b bounds) rest(c *column) string {
	switch {
	case c == nil:
		return "null::text"
	case b.whole && isJSON(c):
		return b.measured(c)
	case c.oid == oidJSONB:
		return fmt.Sprintf("case when %s then case when %s then %s else %s end end", doubtful(c), b.large(c), b.size(c), b.measured(c))
	default:
		return fmt.Sprintf("case when %s then %s end", b.large(c), b.size(c))
	}
}

// doubtful is the condition of a jsonb of which it is not certain that its text is short. It is not true of NULL, nor is that of large
// values.
func doubtful(c *column) string {
	return fmt.Sprintf("pg_column_size(%[1]s) > %[2]d or pg_column_compression(%[1]s) is not null", sql.Quote(c.name), mostJSONB)
}

// large is the condition of a value that does not come with its page.
func (b bounds) large(c *column) string {
	if !isJSON(c) {
		return fmt.Sprintf("octet_length(%s) > %s", asText(c), b.most)
	}
	ratio := compressed
	if c.oid == oidJSONB {
		ratio = usualCompression
	}
	return fmt.Sprintf("pg_column_size(%[1]s) > %[2]s or pg_column_compression(%[1]s) is not null and pg_column_size(%[1]s) > %[2]s / %[3]d",
		sql.Quote(c.name), b.most, ratio)
}

// measured is JSON written as text, once, or how long that is.
func (b bounds) measured(c *column) string {
	return fmt.Sprintf("(select case when octet_length(v) > %s then '%c' || octet_length(v) else v end from (select %s as v "+
		"offset 0) written)",
		b.most, sizeMark, written(c))
}

// size is about how much a large value takes.
func (b bounds) size(c *column) string {
	if !isJSON(c) {
		return fmt.Sprintf("'%c' || octet_length(%s)", sizeMark, asText(c))
	}
	return fmt.Sprintf("'%[4]c' || case when pg_column_compression(%[1]s) is null or pg_column_size(%[1]s) <= %[2]s / %[3]d "+
		"then pg_column_size(%[1]s) else greatest(pg_column_size(array[%[1]s]), %[2]s + 1) end", sql.Quote(c.name), b.most, compressed, sizeMark)
}

// sizeMark begins a size in the place of JSON, which does not begin so.
const sizeMark = '#'

// sizeOf returns the size that came in the place of a value, 0 if the value came.
func sizeOf(rest []byte) int64 {
	if len(rest) == 0 || rest[0] != sizeMark {
		return 0
	}
	size, err := strconv.ParseInt(string(rest[1:]), 10, 64)
	if err != nil { // which no server sends
		return math.MaxInt32
	}
	return max(size, 1)
}

// missing returns about what a row takes of which not everything came, 0 if all did.
func (t *Table) missing(values [][]byte, most int64) int64 {
	size := sizeOf(values[atPayloadRest]) + sizeOf(values[atHeadersRest])
	long := cut(values[atTopic], most) || cut(values[atKey], most)
	for _, value := range values[atExtra:] {
		long = long || cut(value, most)
	}
	switch {
	case size == 0 && !long:
		return 0
	case long:
		size += most + 1
	case size <= most:
		size = min(size*usualCompression, most) + 1
	}
	return size + int64(len(values[atPayload])+len(values[atHeaders]))
}

func isJSON(c *column) bool { return c.oid == oidJSON || c.oid == oidJSONB }

// asText is the column as a type of which PostgreSQL tells the length.
func asText(c *column) string {
	if c.oid == oidXML {
		return written(c)
	}
	return sql.Quote(c.name)
}

// written is JSON or XML as text. The functions are those of the column's type: when it has got another, which would be written
// differently, the statement fails, and the table is opened again. A cast to text would take any type.
func written(c *column) string {
	function := map[uint32]string{oidJSON: "json_out", oidJSONB: "jsonb_out", oidXML: "xml_out"}[c.oid]
	return function + "(" + sql.Quote(c.name) + ")::text"
}
