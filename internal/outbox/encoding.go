package outbox

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	encodingUTF8  = "UTF8"
	encodingNone  = "SQL_ASCII" // bytes without a meaning
	encodingLatin = "LATIN1"    // the first 256 characters
)

// clean makes a text fit for the last_error column.
func (t *Table) clean(text string) string {
	return Storable(text, t.relation.Encoding, t.mapping.LastError.Width)
}

// Storable makes a text fit for a column of a database in the given encoding: valid UTF-8 without NUL, cut to the
// column's width unless that is 0. PostgreSQL counts the width in characters, or in bytes where it knows no characters.
// A character that the encoding may lack, for which the server would reject the whole statement, is written as an
// escape sequence: \u20ac.
func Storable(text, encoding string, width int) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\x00", "")
	if encoding != encodingUTF8 && encoding != encodingNone {
		var escaped strings.Builder
		for _, r := range text {
			if r < utf8.RuneSelf || encoding == encodingLatin && r <= 0xff {
				escaped.WriteRune(r)
			} else {
				escaped.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
			}
		}
		text = escaped.String()
	}
	if width == 0 || len(text) <= width {
		return text
	}
	if encoding == encodingNone {
		return strings.ToValidUTF8(text[:width], "")
	}
	if runes := []rune(text); len(runes) > width {
		return string(runes[:width])
	}
	return text
}
