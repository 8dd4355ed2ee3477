package outbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/outbox-relay/outbox-relay/publisher"
)

var errHeaders = errors.New("the headers column holds something other than a JSON object; write an object of names " +
	"and values")

// parseHeaders appends the members of a JSON object to headers. Values that are not strings keep their text: 1.50 stays
// 1.50, objects and arrays stay JSON. An empty array counts as an empty object, since some languages encode one that
// way. text comes from a json or jsonb column, so it is known to be well formed.
func parseHeaders(headers []publisher.Header, text []byte, a *arena) ([]publisher.Header, error) {
	s := scanner{text: text}
	s.space()
	if s.next() == '[' {
		s.at++
		if s.space(); s.next() == ']' {
			return headers, nil
		}
		return headers, errHeaders
	}
	if s.next() != '{' {
		if string(text[s.at:]) == "null" {
			return headers, nil
		}
		return headers, errHeaders
	}
	s.at++
	for {
		s.space()
		switch s.next() {
		case '}', 0:
			return headers, nil
		case ',':
			s.at++
			continue
		}
		name, err := s.quoted(a)
		if err != nil {
			return headers, err
		}
		s.space()
		s.at++ // the colon
		s.space()
		var value string
		isText := s.next() == '"'
		if isText {
			if value, err = s.quoted(a); err != nil {
				return headers, err
			}
		} else {
			raw, err := s.raw()
			if err != nil {
				return headers, err
			}
			value = a.text(raw)
		}
		headers = append(headers, publisher.Header{Name: name, Value: value, JSON: !isText})
	}
}

// scanner goes over well-formed JSON.
type scanner struct {
	text []byte
	at   int
}

// next returns the current byte, 0 at the end.
func (s *scanner) next() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

func (s *scanner) space() {
	for s.at < len(s.text) && strings.IndexByte(" \t\n\r", s.text[s.at]) >= 0 {
		s.at++
	}
}

// quoted reads a string.
func (s *scanner) quoted(a *arena) (string, error) {
	start, escaped := s.at, false
	for s.at++; s.at < len(s.text) && s.text[s.at] != '"'; s.at++ {
		if s.text[s.at] == '\\' {
			escaped = true
			s.at++
		}
	}
	s.at = min(s.at+1, len(s.text))
	literal := s.text[start:s.at]
	if !escaped && len(literal) >= 2 {
		return a.text(literal[1 : len(literal)-1]), nil
	}
	var value string
	err := json.Unmarshal(literal, &value)
	return value, err
}

// raw reads a value that is not a string and returns it as written.
func (s *scanner) raw() (value json.RawMessage, err error) {
	d := json.NewDecoder(bytes.NewReader(s.text[s.at:]))
	err = d.Decode(&value)
	s.at += int(d.InputOffset())
	return value, err
}
