package nats

import (
	"bytes"
	"encoding/json"

	"github.com/nats-io/nats.go"
)

// An ack is the answer to a message. The zero value is an acceptance. Its bytes belong to the message that nats.go has
// delivered.
type ack struct {
	unheard   bool      // nothing listens on the subject, so no stream does
	refusal   *apiError // the stream did not take the message
	duplicate bool      // the stream had it already
	stream    string    // of a duplicate or a refusal: the stream that answered
	by        []byte    // of an acceptance: the stream that has the message
}

// An apiError is JetStream's error object.
type apiError struct {
	Code        int    `json:"code"`     // like an HTTP status
	ErrCode     int    `json:"err_code"` // the exact error
	Description string `json:"description"`
}

// readAck reads an answer. ok is false if the answer is not from a stream or a server. An empty message with the status
// 503 is the server's own: nothing is subscribed to the subject, which a stream would be.
func readAck(m *nats.Msg) (a ack, ok bool) {
	if len(m.Data) == 0 {
		unheard := m.Header.Get("Status") == "503"
		return ack{unheard: unheard}, unheard
	}
	if stream := plainAck(m.Data); stream != nil {
		return ack{by: stream}, true
	}
	return parseAck(m.Data)
}

// plainAck returns the stream of an acknowledgement that servers write without a JSON library: {"stream":"S","seq":1},
// or with "domain":"D" before seq. It returns nil for anything else, and for any name with characters that JSON
// escapes: these are left to parseAck.
func plainAck(data []byte) []byte {
	rest, ok := bytes.CutPrefix(data, []byte(`{"stream":"`))
	names, number, found := bytes.Cut(rest, []byte(`","seq":`))
	end := bytes.TrimLeft(number, "0123456789")
	special := func(c rune) bool { return c < ' ' || c == '"' || c == '\\' }
	stream, domain, _ := bytes.Cut(names, []byte(`","domain":"`))
	if digits := len(number) - len(end); !ok || !found || len(stream) == 0 || bytes.ContainsFunc(stream, special) ||
		bytes.ContainsFunc(domain, special) || digits == 0 || digits > 19 || number[0] == '0' || string(end) != "}" {
		return nil
	}
	return stream
}

// parseAck reads any answer of JetStream. An object that names neither an error nor a stream is from something else,
// and proves nothing.
func parseAck(data []byte) (a ack, ok bool) {
	var answer struct {
		Stream    string    `json:"stream"`
		Seq       uint64    `json:"seq"`
		Duplicate bool      `json:"duplicate"`
		Error     *apiError `json:"error"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return ack{}, false
	}
	if answer.Error != nil {
		return ack{refusal: answer.Error, stream: answer.Stream}, true
	}
	return ack{duplicate: answer.Duplicate, stream: answer.Stream, by: []byte(answer.Stream)}, answer.Stream != ""
}
