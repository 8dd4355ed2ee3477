package outbox

import (
	"regexp"
	"strconv"
	"strings"
)

const encodingUTF8 = "UTF8"

// Clean makes a text fit for the last_error column: valid UTF-8 without NUL, cut to the column's width in characters.
// In another encoding than UTF-8 the server may lack a character, and would reject the whole statement, so characters
// beyond ASCII are written as escape sequences there: \u20ac.
func (t *Table) Clean(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\x00", "")
	if t.relation.Encoding != encodingUTF8 {
		text = regexp.MustCompile(`[^\x00-\x7f]+`).ReplaceAllStringFunc(text, func(beyond string) string {
			return strings.Trim(strconv.QuoteToASCII(beyond), `"`)
		})
	}
	if runes, width := []rune(text), t.mapping.LastError.Width; width > 0 && len(runes) > width {
		return string(runes[:width])
	}
	return text
}
