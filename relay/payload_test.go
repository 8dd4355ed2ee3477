package relay

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/route"
	"github.com/outbox-relay/outbox-relay/internal/rowkey"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// Text that encodes bytes is sent as these bytes. A text that is not a valid encoding fails its row, and the error does
// not quote it.
func TestPayloadEncoding(t *testing.T) {
	t.Parallel()
	long := bytes.Repeat([]byte{0, 1, 0xff}, 40)
	for _, test := range []struct {
		encoding route.Encoding
		text     string
		want     []byte
		ok       bool
	}{
		{route.EncodingBase64, "AAEC/w==", []byte{0, 1, 2, 255}, true},
		{route.EncodingBase64, "", []byte{}, true},
		{route.EncodingBase64, strings.Repeat("AAH/", 19) + "\n" + strings.Repeat("AAH/", 21) + "\n", long, true},
		{route.EncodingBase64, "AAEC_w==", nil, false},
		{route.EncodingBase64, "AAEC/w", nil, false},
		{route.EncodingBase64, "AAEC/w==AA", nil, false},
		{route.EncodingBase64, "Geheim!!", nil, false},
		{route.EncodingHex, "000102fF", []byte{0, 1, 2, 255}, true},
		{route.EncodingHex, `\x00ff`, []byte{0, 255}, true},
		{route.EncodingHex, "", []byte{}, true},
		{route.EncodingHex, "abc", nil, false},
		{route.EncodingHex, "Geheim", nil, false},
		{route.EncodingHex, `\x\x00`, nil, false},
	} {
		row := &outbox.Row{Message: publisher.Message{Payload: []byte(test.text), Type: "text/plain"}}
		(&Destination{route: route.Route{Encoding: test.encoding}}).render(row, 1)
		switch m := row.Message; {
		case test.ok &&
			(row.Invalid != nil || m.Payload == nil || !bytes.Equal(m.Payload, test.want) ||
				m.ContentType() != "application/octet-stream"):
			t.Errorf("%s %q gives %x of %s, %v", test.encoding, test.text, m.Payload, m.Type, row.Invalid)
		case !test.ok && (publisher.ClassOf(row.Invalid) != publisher.Permanent ||
			strings.Contains(row.Invalid.Error(), "eheim")):
			t.Errorf("%s %q: %v", test.encoding, test.text, row.Invalid)
		}
		// A dead letter shows the text as it is.
		dead := &outbox.Row{Message: publisher.Message{Payload: []byte(test.text), Type: "text/plain"}}
		if (&Destination{route: route.Route{Encoding: test.encoding}, FailedOf: "a"}).render(dead, 1); !test.ok &&
			(dead.Invalid != nil || string(dead.Message.Payload) != test.text || dead.Message.Type != "text/plain") {
			t.Errorf("%s %q: the payload became %q", test.encoding, test.text, dead.Message.Payload)
		}
	}
	null := &outbox.Row{Message: publisher.Message{Type: "text/plain"}}
	if (&Destination{route: route.Route{Encoding: route.EncodingHex}}).render(null, 1); null.Message.Payload != nil ||
		null.Invalid != nil {
		t.Errorf("NULL became %v, %v", null.Message.Payload, null.Invalid)
	}
	own := &outbox.Row{Message: publisher.Message{
		Payload: []byte("00"), Type: "text/plain",
		Headers: []publisher.Header{{Name: "content-type", Value: "application/avro"}},
	}}
	if (&Destination{route: route.Route{Encoding: route.EncodingHex}}).render(own,
		1); own.Message.ContentType() != "application/avro" {
		t.Errorf("the row's own type became %s", own.Message.ContentType())
	}
	invalid := errors.New("invalid")
	was := &outbox.Row{Message: publisher.Message{Payload: []byte("zz")}, Invalid: invalid}
	if (&Destination{route: route.Route{Encoding: route.EncodingHex}}).render(was, 1); !errors.Is(was.Invalid, invalid) {
		t.Errorf("what was wrong before became %v", was.Invalid)
	}
}

func TestRowTime(t *testing.T) {
	t.Parallel()
	extra := route.Extra{All: []rowkey.Source{{Name: "happened"}}}
	at, again := route.TimeFrom("happened", &extra), route.TimeFrom("happened", &extra)
	if len(extra.All) != 2 || *again != *at {
		t.Fatalf("%+v", extra)
	}
	row := &outbox.Row{Extra: []string{"x", "1772366400123"}}
	if (&Destination{route: route.Route{Time: at}}).render(row,
		1); !row.Message.Time.Equal(time.UnixMilli(1772366400123)) {
		t.Errorf("the time is %v", row.Message.Time)
	}
	for _, row := range []*outbox.Row{{Extra: []string{"x", ""}, Nulls: 2}, {Extra: []string{"x", ""}}, {}} {
		if (&Destination{route: route.Route{Time: at}}).render(row, 1); !row.Message.Time.IsZero() {
			t.Errorf("without a time it is %v", row.Message.Time)
		}
	}
	if (&Destination{}).render(row, 1); !row.Message.Time.IsZero() {
		t.Error("a destination without a column for it has kept the time")
	}
}
