// Package printable keeps texts from tables and brokers from steering a terminal: neither control characters, among
// them those beyond ASCII, nor characters that reverse the direction of what follows reach it.
package printable

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"
)

// steers reports whether a character changes how a terminal shows others.
func steers(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
}

// Text returns a text with each such character replaced.
func Text(text string) string {
	return strings.Map(func(r rune) rune {
		if steers(r) {
			return '\uFFFD'
		}
		return r
	}, text)
}

// Cut is Text with at most that many characters, of which the last shows that the text was cut.
func Cut(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most-1]) + "…"
	}
	return Text(text)
}

// JSON returns a writer that escapes such characters. Each write must be whole JSON, in which they can stand in strings
// only.
func JSON(to io.Writer) io.Writer { return escaper{to} }

type escaper struct{ to io.Writer }

func (e escaper) Write(document []byte) (int, error) {
	if !bytes.ContainsFunc(document, hidden) {
		return e.to.Write(document)
	}
	var escaped bytes.Buffer
	for _, r := range string(document) {
		if hidden(r) {
			fmt.Fprintf(&escaped, `\u%04x`, r)
		} else {
			escaped.WriteRune(r)
		}
	}
	if _, err := e.to.Write(escaped.Bytes()); err != nil {
		return 0, err
	}
	return len(document), nil
}

// hidden reports whether JSON may contain such a character as it is: those of ASCII are escaped, or separate values.
func hidden(r rune) bool { return r >= unicode.MaxASCII && steers(r) }
