package outbox

import (
	"fmt"
	"strings"

	"github.com/outbox-relay/outbox-relay/sql"
)

// bounds say in SQL what of a row is sent, so that neither memory nor the line has to carry what nobody takes. A page's rows come
// with their bodies, payload and headers, as far as these are small; the sizes of the others are told, and they are
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
	// mostJSONB is what a jsonb may take to be read with its page. 1e131071 takes a few bytes there, and 131,072 as text.
	mostJSONB = 2 << 10
	// usualCompression is by how much JSON that was compressed is larger, about.
	usualCompression = 4
	// maxText is how many characters of a topic, a key, a header's column are read at the most.
	maxText = 1 << 20
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
	return max(min(each, t.maxRow/compressed), 1)
}

// text bounds an expression of type text: what is longer is cut, which is seen by its length.
func (b bounds) text(expression string) string {
	return fmt.Sprintf("left(%s, least(%s, %d)::integer)", expression, b.most, maxText)
}

// cut reports whether a text that came may have been cut.
func cut(value []byte, most int64) bool { return int64(len(value)) >= min(most, maxText) }

// value bounds a payload or headers: what is larger does not come, or as an empty text in place of JSON.
func (b bounds) value(c *column) string {
	if c == nil {
		return "null::text"
	}
	name := sql.Quote(c.name)
	switch {
	case !isJSON(c):
		return fmt.Sprintf("case when octet_length(%[1]s) <= %[2]s then %[1]s end", asText(c), b.most)
	case b.whole: // it is written as text once
		return fmt.Sprintf("(select case when octet_length(v) > %s then '' else v end from (select %s as v offset 0) written)", b.most, written(c))
	case c.oid == oidJSONB:
		return fmt.Sprintf("case when pg_column_size(%[1]s) <= least(%[2]s, %[3]d) and pg_column_compression(%[1]s) is null then %[4]s when %[1]s is not null then '' end",
			name, b.most, mostJSONB, written(c))
	default:
		return fmt.Sprintf("case when pg_column_size(%[1]s) <= %[2]s and (pg_column_compression(%[1]s) is null or pg_column_size(%[1]s) <= %[2]s / %[3]d) then %[1]s end",
			name, b.most, compressed)
	}
}

// size is what the values take. It is more than a row of the page may take if one of them does not come.
func (b bounds) size(columns ...*column) string {
	var sizes []string
	for _, c := range columns {
		switch {
		case c == nil:
		case !isJSON(c):
			sizes = append(sizes, fmt.Sprintf("coalesce(octet_length(%s), 0)", asText(c)))
		case b.whole:
			sizes = append(sizes, fmt.Sprintf("coalesce(pg_column_size(%s), 0)", sql.Quote(c.name)))
		default:
			sizes = append(sizes, fmt.Sprintf("coalesce(case when pg_column_compression(%[1]s) is null or pg_column_size(%[1]s) <= %[2]s / %[3]d "+
				"then pg_column_size(%[1]s) else greatest(pg_column_size(array[%[1]s]), %[2]s + 1) end, 0)", sql.Quote(c.name), b.most, compressed))
		}
	}
	return "(" + strings.Join(append(sizes, "0"), " + ") + ")::bigint"
}

// missing returns about what a row takes of which not everything came, 0 if all did.
func (t *Table) missing(values [][]byte, most int64) int64 {
	size := ordinal(values[atSize])
	lacks, long := false, false
	for i, value := range values {
		switch i {
		case atPayload, atHeaders:
			c := t.mapping.payload
			if i == atHeaders {
				c = t.mapping.headers
			}
			lacks = lacks || value != nil && len(value) == 0 && isJSON(c)
		case atTopic, atKey:
			long = long || cut(value, most)
		default:
			long = long || i >= atExtra && cut(value, most)
		}
	}
	switch {
	case size > most:
		return size
	case long:
		return most + 1
	case lacks:
		return min(size*usualCompression, most) + 1
	default:
		return 0
	}
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
