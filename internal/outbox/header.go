package outbox

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/outbox-relay/outbox-relay/publisher"
)

var errHeaders = errors.New("the headers column holds something other than a JSON object; write an object of names " +
	"and values")

// parseHeaders appends the members of a JSON object to headers. Values that are not strings keep their text: 1.50 stays
// 1.50, objects and arrays stay JSON. An empty array counts as an empty object, since some languages encode one that
// way. text comes from a json or jsonb column, so it is known to be well formed.
func parseHeaders(headers []publisher.Header, text []byte, a *arena) ([]publisher.Header, error) {
	s := scanner{text: text}
	if s.next() != '{' {
		if rest := bytes.Join(bytes.Fields(text), nil); string(rest) != "null" && string(rest) != "[]" {
			return headers, errHeaders
		}
		return headers, nil
	}
	for s.at++; s.next() == '"'; s.at++ { // each time after the brace or a comma
		name, _, err := s.value(a)
		if err != nil {
			return headers, err
		}
		_ = s.next()
		s.at++ // the colon
		value, isText, err := s.value(a)
		if err != nil {
			return headers, err
		}
		headers = append(headers, publisher.Header{Name: name, Value: value, JSON: !isText})
		_ = s.next() // a comma, or the brace
	}
	return headers, nil
}

// scanner goes over well-formed JSON.
type scanner struct {
	text []byte
	at   int
}

// next goes to the next byte that is not space, and returns it; 0 at the end.
func (s *scanner) next() byte {
	for ; s.at < len(s.text); s.at++ {
		if c := s.text[s.at]; c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c
		}
	}
	return 0
}

// value reads a value: the text of a string, or of another value as it is written. Only strings without escapes, which
// nearly all values are, are read without the decoder.
func (s *scanner) value(a *arena) (value string, isText bool, err error) {
	isText = s.next() == '"'
	rest := s.text[s.at:]
	if isText {
		end := bytes.IndexByte(rest[1:], '"') + 1
		if end > 0 && bytes.IndexByte(rest[:end], '\\') < 0 {
			s.at += end + 1
			return a.text(rest[1:end]), true, nil
		}
	}
	var raw json.RawMessage
	d := json.NewDecoder(bytes.NewReader(rest))
	err = d.Decode(&raw)
	s.at += int(d.InputOffset())
	if !isText || err != nil {
		return a.text(raw), isText, err
	}
	var unescaped string // allocated, so not the result
	err = json.Unmarshal(raw, &unescaped)
	return unescaped, true, err
}
