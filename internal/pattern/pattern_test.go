package pattern

import (
	"regexp"
	"strings"
	"testing"
)

func TestPatterns(t *testing.T) {
	for _, c := range []struct{ patterns, takes, leaves string }{
		{"", "x order.created", ""},
		{"*", "x order.created a/b", ""},
		{"order.*", "order. order.created order.a/b order.a.b.c", "order orders.x xorder.x"},
		{"*.created", "order.created .created a/b.created", "created order.createdx"},
		{"a*b*c", "abc axbxc abcabc a/b.c", "ab acb abcx"},
		{"a**c", "ac abc", "a c"},
		{"order.*,invoice", "order.x invoice", "invoice.x"},
		{"order.*,!order.internal.*", "order.x order.internal", "order.internal.x invoice"},
		{"!order.internal.*,order.*", "order.x", "order.internal.x invoice"},
		{"!audit.*", "x order.x audit", "audit.x"},
		{"!audit.*,!*.debug", "x order.x", "audit.x order.debug"},
		{"order.?,[ab]", "order.? [ab]", "order.x a b"},
		{"Order", "Order", "order"},
	} {
		var patterns []string
		if c.patterns != "" {
			patterns = strings.Split(c.patterns, ",")
		}
		for _, topic := range strings.Fields(c.takes) {
			if !Takes(patterns, topic) {
				t.Errorf("%q does not take %s", c.patterns, topic)
			}
		}
		for _, topic := range strings.Fields(c.leaves) {
			if Takes(patterns, topic) {
				t.Errorf("%q takes %s", c.patterns, topic)
			}
		}
	}
}

// FuzzPattern compares a pattern with a regular expression.
func FuzzPattern(f *testing.F) {
	for _, seed := range [][2]string{
		{"a*b", "ab"},
		{"**", ""},
		{"a*a", "a"},
		{"*ab*ab", "xababab"},
		{"a.*", "a.b/c"},
		{"", ""},
		{"a*", "a\n"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, topic string) {
		want := regexp.MustCompile("(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(strings.ToValidUTF8(pattern, "")), `\*`, ".*") +
			"$").MatchString(strings.ToValidUTF8(topic, ""))
		if got := fits(strings.ToValidUTF8(pattern, ""), strings.ToValidUTF8(topic, "")); got != want {
			t.Errorf("%q takes %q: %v", pattern, topic, got)
		}
	})
}
