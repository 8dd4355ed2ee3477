package nats

import (
	"testing"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
)

func TestReadAck(t *testing.T) {
	status := func(code string) nats.Header { return nats.Header{"Status": {code}} }
	for _, test := range []struct {
		name   string
		header nats.Header
		body   string
		ok     bool
		want   ack // of refusal, only the code is compared
	}{
		{"stored", nil, `{"stream":"ORDERS","seq":1}`, true, ack{}},
		{"stored in a domain", nil, `{"stream":"ORDERS","domain":"hub","seq":18446744073709551615}`, true, ack{}},
		{"duplicate", nil, `{"stream":"ORDERS","seq":42,"duplicate": true}`, true, ack{duplicate: true, stream: "ORDERS"}},
		{
			"duplicate in a stream with an odd name", nil, `{"stream":"a\u00e4","seq":42,"duplicate":true}`, true,
			ack{duplicate: true, stream: "aä"},
		},
		{"with a field of a later version", nil, `{"stream":"ORDERS","seq":42,"batch":"b","count":7}`, true, ack{}},
		{"with other fields", nil, ` {"seq": 7, "stream": "ORDERS", "val": "3"}`, true, ack{}},
		{
			"refused", nil, `{"error":{"code":400,"err_code":10054,"description":"too large"},"stream":"ORDERS","seq":0}`, true,
			ack{refusal: &apiError{ErrCode: 10054}},
		},
		{
			"throttled", status("429"), `{"error":{"code":429,"err_code":10167},"stream":"ORDERS","seq":0}`, true,
			ack{refusal: &apiError{ErrCode: 10167}},
		},
		{"nobody listens", status("503"), "", true, ack{unheard: true}},
		{"other status", status("408"), "", false, ack{}},
		{"empty", nil, "", false, ack{}},
		{"text", nil, "ok", false, ack{}},
		{"no stream", nil, `{"seq":1}`, false, ack{}},
		{"empty stream", nil, `{"stream":"","seq":1}`, false, ack{}},
		{"null", nil, `null`, false, ack{}},
		{"cut off", nil, `{"stream":"ORDERS","seq":1`, false, ack{}},
		{"two answers", nil, `{"stream":"ORDERS","seq":1}{"error":{}}`, false, ack{}},
		{
			"error after a sequence number", nil, `{"stream":"ORDERS","seq":1,"error":{"code":503,"err_code":10077}}`, true,
			ack{refusal: &apiError{ErrCode: 10077}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, ok := readAck(&nats.Msg{Header: test.header, Data: []byte(test.body)})
			if ok != test.ok || got.unheard != test.want.unheard || got.duplicate != test.want.duplicate ||
				test.want.duplicate && got.stream != test.want.stream ||
				(got.refusal == nil) != (test.want.refusal == nil) {
				t.Fatalf("read as %+v, %t; want %+v, %t", got, ok, test.want, test.ok)
			}
			if got.refusal != nil && got.refusal.ErrCode != test.want.refusal.ErrCode {
				t.Errorf("error %d, want %d", got.refusal.ErrCode, test.want.refusal.ErrCode)
			}
		})
	}
}

// Everything that the quick reader takes for an acceptance must be one for the JSON library.
func FuzzPlainAck(f *testing.F) {
	for _, seed := range []string{
		`{"stream":"S","seq":1}`, `{"stream":"S","domain":"D","seq":10}`, `{"stream":"S","seq":2,"duplicate": true}`,
		`{"stream":"a\"b","seq":3}`, `{"stream":"S","seq":01}`, `{"stream":"S","seq":99999999999999999999}`,
		`{"stream":"S","seq":1,"error":{"code":1}}`, "{\"stream\":\"\xff\n\",\"seq\":1}", `{"stream":"","seq":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		stream := plainAck(data)
		if stream == nil {
			return
		}
		if a, ok := parseAck(data); !ok || a.refusal != nil || a.duplicate || utf8.Valid(stream) &&
			a.stream != string(stream) {
			t.Errorf("%q is an acceptance for the quick reader and %+v, %t for the full one", data, a, ok)
		}
	})
}

// The form that servers write must be handled by the quick reader. Otherwise every acknowledgement would need a parser.
func TestPlainAckIsQuick(t *testing.T) {
	for _, data := range []string{
		`{"stream":"ORDERS","seq":1}`, `{"stream":"Bestellungen-ä","domain":"hub","seq":123456}`,
	} {
		if plainAck([]byte(data)) == nil {
			t.Errorf("%s is not recognised", data)
		}
	}
	data := []byte(`{"stream":"ORDERS","seq":42}`)
	if n := testing.AllocsPerRun(100, func() { plainAck(data) }); n > 0 {
		t.Errorf("reading an acknowledgement allocates %v times", n)
	}
}
