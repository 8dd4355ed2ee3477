package relay

import (
	"slices"
	"strings"
	"unicode"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/printable"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// shed removes those of a dead letter's own headers that cannot be sent, which may be the reason why the row failed,
// and names them in the header that gives the reason. Headers that describe the failure are put on one line. A dead
// letter that its own destination refused for a header would fail again, and the first failure would go unnoticed.
func (d *Destination) shed(row *outbox.Row) {
	m := &row.Message
	kept := make([]publisher.Header, 0, len(m.Headers)+1)
	seen := map[string]bool{}
	picky := d.profile != nil && !d.fits(row, m.Headers) && d.fits(row, nil) // the headers are what it does not allow
	for _, h := range m.Headers {
		switch {
		case outbox.DescribesFailure(h.Name):
			h.Value = oneLine(h.Value)
		case seen[h.Name], !carries(d.Publisher, h), picky && !d.fits(row, append(slices.Clip(kept), h)):
			row.LeftOut = append(row.LeftOut, h.Name)
			continue
		}
		seen[h.Name] = true
		kept = append(kept, h)
	}
	if len(row.LeftOut) > 0 {
		reason := slices.IndexFunc(kept, func(h publisher.Header) bool { return h.Name == outbox.HeaderError })
		if reason < 0 {
			reason = len(kept)
			kept = append(kept, publisher.Header{Name: outbox.HeaderError})
		}
		names := printable.Cut(strings.Join(row.LeftOut, ", "), 1000)
		kept[reason].Value = strings.TrimPrefix(kept[reason].Value+"; headers left out: "+names, "; ")
	}
	m.Headers = kept
}

// fits reports whether the wire format allows a message with these headers. CloudEvents, for instance, refuses two
// names that differ only in what its attributes cannot hold.
func (d *Destination) fits(row *outbox.Row, headers []publisher.Header) bool {
	one := row.Message
	one.Headers = headers
	return d.profile(&one, 1) == nil
}

// describe adds the headers that describe the failure to a message of a wire format that carries no headers of the row.
func describe(m *publisher.Message, headers []publisher.Header) {
	for _, h := range headers {
		if _, has := m.Header(h.Name); outbox.DescribesFailure(h.Name) && !has {
			m.Headers = append(m.Headers, h)
		}
	}
}

// carries reports whether a publisher can carry a header.
func carries(p publisher.Publisher, h publisher.Header) bool {
	if one := (publisher.Message{Headers: []publisher.Header{h}}); one.CheckHeaders() != nil {
		return false
	}
	checker, strict := p.(publisher.HeaderChecker)
	return !strict || checker.CheckHeader(&h) == nil
}

// oneLine returns a text with spaces instead of line breaks and other control characters, which some brokers' headers
// cannot carry, and without surrounding blanks.
func oneLine(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text))
}
