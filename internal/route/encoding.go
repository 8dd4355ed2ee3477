package route

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// An Encoding says how text represents the bytes of a payload.
type Encoding string

// The encodings. EncodingNone, like the zero Encoding, sends a text unchanged.
const (
	EncodingNone Encoding = "none"
	// standard alphabet, with padding; line breaks, as PostgreSQL's encode makes them, are ignored
	EncodingBase64 Encoding = "base64"
	EncodingHex    Encoding = "hex" // digits in either case, optionally preceded by \x as PostgreSQL writes it
)

// Decode replaces the payload's text by the bytes that it represents. NULL stays NULL.
func (e Encoding) Decode(row *outbox.Row) error {
	m := &row.Message
	if !e.decodes() || m.Payload == nil {
		return nil
	}
	payload := make([]byte, len(m.Payload)) // more than either needs
	var n int
	var err error
	if e == EncodingHex {
		n, err = hex.Decode(payload, bytes.TrimPrefix(m.Payload, []byte(`\x`)))
	} else {
		n, err = base64.StdEncoding.Decode(payload, m.Payload)
	}
	payload = payload[:n]
	if err != nil { // whose text may quote the payload
		return publisher.PermanentError("payload not encoded",
			"the payload is not %s text, as the payload encoding says", string(e))
	}
	m.Payload, m.Type = payload, "application/octet-stream"
	return nil
}

// decodes reports whether there is anything to decode.
func (e Encoding) decodes() bool { return e == EncodingBase64 || e == EncodingHex }
