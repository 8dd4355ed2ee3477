package nats

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/outbox-relay/outbox-relay/publisher"
)

func TestEncode(t *testing.T) {
	base := publisher.Message{
		ID: "1", DedupID: "public.outbox/1", Topic: "orders", Key: []byte("k"), Payload: []byte("{}"),
		Type: "application/json",
	}
	w := wire{header: nats.Header{}}
	for _, test := range []struct {
		name   string
		change func(*publisher.Message)
		want   nats.Header // in addition to those of base
		less   []string    // headers of base that are missing
	}{
		{"plain", func(*publisher.Message) {}, nil, nil},
		{"without a key", func(m *publisher.Message) { m.Key = nil }, nil, []string{"message-key"}},
		{"with an empty key", func(m *publisher.Message) { m.Key = []byte{} }, nats.Header{"message-key": {""}}, nil},
		{"without a type", func(m *publisher.Message) { m.Type = "" }, nil, []string{"content-type"}},
		{"with a type of its own", func(m *publisher.Message) {
			m.Headers = []publisher.Header{{Name: "content-type", Value: "text/csv"}}
		}, nats.Header{"content-type": {"text/csv"}}, nil},
		{"with a type of its own in other letters", func(m *publisher.Message) {
			m.Headers = []publisher.Header{{Name: "Content-Type", Value: "text/csv"}}
		}, nats.Header{"Content-Type": {"text/csv"}}, []string{"content-type"}},
		{"bare", func(m *publisher.Message) {
			m.Bare, m.Headers = true, []publisher.Header{{Name: "id", Value: "1"}, {Name: "message-id", Value: "x"}}
		}, nats.Header{"id": {"1"}, "message-id": {"x"}}, []string{"message-key", "content-type"}},
		{"with headers", func(m *publisher.Message) {
			m.Headers = []publisher.Header{
				{Name: "a", Value: "1"},
				{Name: "A", Value: "2"},
				{Name: "a", Value: "3"},
				{Name: "b", Value: ""},
				{Name: "a", Value: "4"},
			}
		}, nats.Header{"a": {"1", "3", "4"}, "A": {"2"}, "b": {""}}, nil},
		{
			"with a TTL", func(m *publisher.Message) { m.Headers = []publisher.Header{{Name: "nats-ttl", Value: "36h"}} },
			nats.Header{"Nats-TTL": {"36h"}},
			nil,
		},
		{
			"that stays for ever", func(m *publisher.Message) {
				m.Headers = []publisher.Header{{Name: "Nats-TTL", Value: "Never"}}
			},
			nats.Header{"Nats-TTL": {"Never"}},
			nil,
		},
		{
			"with a TTL in seconds", func(m *publisher.Message) {
				m.Headers = []publisher.Header{{Name: "Nats-TTL", Value: "9000"}}
			},
			nats.Header{"Nats-TTL": {"9000"}},
			nil,
		},
		{
			"with an empty TTL", func(m *publisher.Message) { m.Headers = []publisher.Header{{Name: "Nats-TTL", Value: ""}} },
			nats.Header{"Nats-TTL": {""}},
			nil,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := base
			test.change(&m)
			got, err := w.encode(&m, "reply")
			if err != nil {
				t.Fatal(err)
			}
			want := nats.Header{
				"Nats-Msg-Id": {"public.outbox/1"}, "message-id": {"1"}, "message-key": {"k"},
				"content-type": {"application/json"},
			}
			maps.Copy(want, test.want)
			for _, name := range test.less {
				delete(want, name)
			}
			if !maps.EqualFunc(got.Header, want, slices.Equal) {
				t.Errorf("headers %q, want %q", got.Header, want)
			}
			if got.Subject != "orders" || got.Reply != "reply" || string(got.Data) != "{}" {
				t.Errorf("message %+v", got)
			}
		})
	}
}

func TestEncodeRefuses(t *testing.T) {
	w := wire{header: nats.Header{}}
	header := func(name, value string) func(*publisher.Message) {
		return func(m *publisher.Message) { m.Headers = []publisher.Header{{Name: name, Value: value}} }
	}
	for name, change := range map[string]func(*publisher.Message){
		"no id":                       func(m *publisher.Message) { m.DedupID = "" },
		"id with a line break":        func(m *publisher.Message) { m.DedupID = "a\nb" },
		"id with a space at its end":  func(m *publisher.Message) { m.DedupID = "a " },
		"row id with a line break":    func(m *publisher.Message) { m.ID = "a\rb" },
		"key with a line break":       func(m *publisher.Message) { m.Key = []byte("a\r\nb") },
		"header without a name":       header("", "x"),
		"header name with colon":      header("a:b", "x"),
		"header name with space":      header("a b", "x"),
		"header name with line break": header("a\r\nb", "x"),
		"header name with umlaut":     header("ä", "x"),
		"header name with slash":      header("a/b", "x"),
		"header value with CR":        header("a", "x\ry"),
		"header value with LF":        header("a", "x\ny"),
		"header value with space":     header("a", "x "),
		"header that steers NATS":     header("Nats-Expected-Stream", "x"),
		"header of the relay":         header("Message-ID", "x"),
	} {
		m := publisher.Message{ID: "1", DedupID: "1", Topic: "orders"}
		change(&m)
		if _, err := w.encode(&m, "reply"); publisher.ClassOf(err) != publisher.Permanent {
			t.Errorf("%s is %v: %v", name, publisher.ClassOf(err), err)
		}
	}
}

// nats.go checks header names too. If it were stricter than this package, messages with the names that it refuses would
// be lost.
func TestNamesAreLegalForTheClient(t *testing.T) {
	for c := range 256 {
		name := "a" + string([]byte{byte(c)})
		err := (&nats.Conn{}).PublishMsg(&nats.Msg{Subject: "x", Header: nats.Header{name: {"v"}}})
		refused := errors.Is(err, nats.ErrBadHeaderMsg)
		if legalName(name) == refused {
			t.Errorf("the name %q: legal is %t, refused by nats.go is %t", name, legalName(name), refused)
		}
	}
}
