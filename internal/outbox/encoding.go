package outbox

import (
	"regexp"
	"strconv"
	"strings"
)

const (
	encodingUTF8 = "UTF8"
	encodingNone = "SQL_ASCII" // bytes without a meaning
)

// clean makes a text fit for the last_error column.
func (t *Table) clean(text string) string {
	return Storable(text, t.relation.Encoding, t.mapping.LastError.Width)
}

// Storable makes a text fit for a column of a database in the given encoding: valid UTF-8 without NUL, cut to the
// column's width in characters unless that is 0. In another encoding the server may lack a character, and would reject
// the whole statement, so characters beyond ASCII are written as escape sequences there: \u20ac.
func Storable(text, encoding string, width int) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\x00", "")
	if encoding != encodingUTF8 {
		text = regexp.MustCompile(`[^\x00-\x7f]+`).ReplaceAllStringFunc(text, func(beyond string) string {
			return strings.Trim(strconv.QuoteToASCII(beyond), `"`)
		})
	}
	if runes := []rune(text); width > 0 && len(runes) > width {
		return string(runes[:width])
	}
	return text
}
