package outbox

import (
	"encoding/json"
	"testing"
	"unicode/utf8"
)

// FuzzHeaders compares the header parser with encoding/json.
func FuzzHeaders(f *testing.F) {
	for _, seed := range []string{
		`{}`, `[]`, `null`, `1`, `{"a":"b"}`, `{ "a" : [1, {"b": "]"}] , "c":null,"d":-1.50e+3 }`,
		`{"\u0061\"":"\\"}`, `{"a":{}, "b":[]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) || !utf8.Valid(text) {
			t.Skip("the column holds valid JSON in valid UTF-8 only")
		}
		var a arena
		headers, err := parseHeaders(nil, text, &a)
		var want map[string]json.RawMessage
		wantErr := json.Unmarshal(text, &want)
		if err != nil {
			if wantErr == nil {
				t.Fatalf("%s: %v", text, err)
			}
			return
		}
		if wantErr != nil { // [] counts as {}
			if len(headers) > 0 {
				t.Fatalf("%s: read %+v from something that is not an object", text, headers)
			}
			return
		}
		got := map[string]string{}
		for _, h := range headers {
			got[h.Name] = h.Value
			if h.JSON == (want[h.Name][0] == '"') {
				t.Fatalf("%s: %s is taken for JSON or not wrongly", text, h.Name)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%s: %d headers, want %d", text, len(got), len(want))
		}
		for name, raw := range want {
			var value string
			if raw[0] != '"' {
				value = string(raw)
			} else if err := json.Unmarshal(raw, &value); err != nil {
				t.Fatal(err)
			}
			if got[name] != value {
				t.Fatalf("%s: %s is %q, want %q", text, name, got[name], value)
			}
		}
	})
}
