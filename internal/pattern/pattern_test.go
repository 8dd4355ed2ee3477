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

// A destination that can take no row is one whose topics are all taken before, or excluded.
func TestTakesNone(t *testing.T) {
	for _, c := range []struct {
		patterns string
		earlier  []string
		none     bool
	}{
		{"", nil, false},
		{"order.*", nil, false},
		{"", []string{""}, true},
		{"order.*", []string{""}, true},
		{"order.*,bill", []string{""}, true},
		{"", []string{"order.*"}, false},
		{"order.*", []string{"order.*"}, true},
		{"order.new.*", []string{"order.*"}, true},
		{"order.*", []string{"order.new.*"}, false},
		{"order.*,bill", []string{"order.*"}, false},
		{"order.*,bill", []string{"order.*", "b*"}, true},
		{"order.*", []string{"order.*,!order.internal.*"}, false},
		{"order.*,!order.internal.*", []string{"order.*,!order.internal.*"}, true},
		{"order.*,!order.*", nil, true},
		{"order.*,!*", nil, true},
		{"", []string{"!order.*"}, false},
		{"!order.*", []string{"!order.*"}, true},
		{"!*", nil, true},
		{"a*b", []string{"a*", "c"}, true},
		{"a*", []string{"a*b"}, false},
	} {
		list := func(text string) []string {
			if text == "" {
				return nil
			}
			return strings.Split(text, ",")
		}
		var earlier [][]string
		for _, e := range c.earlier {
			earlier = append(earlier, list(e))
		}
		if got := TakesNone(list(c.patterns), earlier); got != c.none {
			t.Errorf("%q after %q takes nothing: %v", c.patterns, c.earlier, got)
		}
	}
}

func TestMayMeet(t *testing.T) {
	for _, c := range []struct {
		a, b  string
		meets bool
	}{
		{"order.*", "mail.*", false},
		{"order.*", "order.new.*", true},
		{"order.*", "*", true},
		{"order", "orders", true},
		{"order.*,mail.a", "mail.*", true},
		{"*.a", "b.*", true},
		{"!x.*", "order.*", true},
		{"a", "b,c", false},
	} {
		a, b := strings.Split(c.a, ","), strings.Split(c.b, ",")
		if MayMeet(a, b) != c.meets || MayMeet(b, a) != c.meets {
			t.Errorf("%q and %q meet: %v", a, b, !c.meets)
		}
	}
}

// FuzzTakesNone looks for a topic that a destination takes although none is left for it.
func FuzzTakesNone(f *testing.F) {
	f.Add("a*,!ab*", "a*", "!abc", "abx")
	f.Fuzz(func(t *testing.T, patterns, first, second, topic string) {
		own, before := strings.Split(patterns, ","), [][]string{strings.Split(first, ","), strings.Split(second, ",")}
		taken := Takes(own, topic) && !Takes(before[0], topic) && !Takes(before[1], topic)
		if taken && TakesNone(own, before) {
			t.Errorf("%q takes %q after %q", own, topic, before)
		}
		if Takes(own, topic) && Takes(before[0], topic) && !MayMeet(own, before[0]) {
			t.Errorf("%q and %q meet in %q", own, before[0], topic)
		}
	})
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
		want := regexp.MustCompile("(?s)^" +
			strings.ReplaceAll(regexp.QuoteMeta(strings.ToValidUTF8(pattern, "")), `\*`, ".*") +
			"$").MatchString(strings.ToValidUTF8(topic, ""))
		if got := fits(strings.ToValidUTF8(pattern, ""), strings.ToValidUTF8(topic, "")); got != want {
			t.Errorf("%q takes %q: %v", pattern, topic, got)
		}
	})
}
