package rowkey

import "testing"

func TestSource(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Source{
		"column:tenant":     {Kind: Column, Name: "tenant"},
		"header:x-key":      {Kind: Header, Name: "x-key"},
		"header:a:b":        {Kind: Header, Name: "a:b"},
		"payload:order.id":  {Kind: Payload, Name: "order.id"},
		"topic":             {Kind: Topic},
		"none":              {Kind: None},
		"column:with blank": {Kind: Column, Name: "with blank"},
	} {
		var got Source
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q: got %#v, %v", text, got, err)
		}
	}
}
