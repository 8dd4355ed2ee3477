package sql

import "testing"

func TestParseTable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Table{
		"orders":              {Name: "orders"},
		"shop.orders":         {Schema: "shop", Name: "orders"},
		`"a.b".c`:             {Schema: "a.b", Name: "c"},
		`"say ""hi"""`:        {Name: `say "hi"`},
		`"""".""`:             {},
		`"""".x`:              {Schema: `"`, Name: "x"},
		`s."a""b"`:            {Schema: "s", Name: `a"b`},
		`"open`:               {},
		`"open""`:             {},
		`"a"b`:                {},
		"":                    {},
		"a.":                  {},
		".a":                  {},
		"a.b.c":               {},
		`Robert"; drop table`: {Name: `Robert"; drop table`},
	} {
		got, err := ParseTable(text)
		if got != want || (err == nil) == (want == Table{}) {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
}
