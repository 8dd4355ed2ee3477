package route

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// An Encoding says how text represents the bytes of a payload.
type Encoding string

// The encodings. EncodingNone sends a text unchanged.
const (
	EncodingNone Encoding = ""
	// standard alphabet, with padding; line breaks, as PostgreSQL's encode makes them, are ignored
	EncodingBase64 Encoding = "base64"
	EncodingHex    Encoding = "hex" // digits in either case, optionally preceded by \x as PostgreSQL writes it
)

// Decode replaces the payload's text by the bytes that it represents. NULL stays NULL.
func (e Encoding) Decode(row *outbox.Row) error {
	m := &row.Message
	if e == EncodingNone || m.Payload == nil {
		return nil
	}
	var payload []byte
	var err error
	if e == EncodingHex {
		payload, err = hex.DecodeString(strings.TrimPrefix(string(m.Payload), `\x`))
	} else {
		payload = make([]byte, base64.StdEncoding.DecodedLen(len(m.Payload)))
		var n int
		n, err = base64.StdEncoding.Decode(payload, m.Payload)
		payload = payload[:n]
	}
	if err != nil {
		return publisher.PermanentError("payload not encoded",
			"the payload is not %s text, as the payload encoding says: %w", string(e), position(err))
	}
	m.Payload, m.Type = payload, "application/octet-stream"
	return nil
}

var errNoHex = errors.New("it has another character than 0-9 and a-f, or an odd number of them")

// position describes the error in an encoded text without quoting the text.
func position(err error) error {
	if at, ok := err.(base64.CorruptInputError); ok { //nolint:errorlint // the decoder returns it as it is
		return fmt.Errorf("it ends or is no longer base64 at byte %d", int64(at))
	}
	return errNoHex
}
