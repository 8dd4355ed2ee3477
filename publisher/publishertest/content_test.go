package publishertest

import (
	"slices"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A failure names the field and shows the two values where they begin to differ, in one line however large they are.
func TestDifferencesNameFieldAndValues(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 5000)
	message := func(key []byte, payload string) *publisher.Message {
		return &publisher.Message{Key: key, Payload: []byte(payload)}
	}
	for name, c := range map[string]struct {
		sent, got *publisher.Message
		want      []string
	}{
		"equal":   {message([]byte("a"), "1"), message([]byte("a"), "1"), nil},
		"payload": {message(nil, "one"), message(nil, "two"), []string{`payload: sent "one", received "two"`}},
		"no key":  {message(nil, ""), message([]byte{}, ""), []string{`key: sent none, received ""`}},
		"both": {message([]byte("a"), "1"), message(nil, "2"), []string{
			`payload: sent "1", received "2"`, `key: sent "a", received none`,
		}},
		"cut off": {message(nil, large), message(nil, "x"), []string{
			`payload: sent "` + large[:40] + `" (bytes 0 to 40 of 5000), received "x"`,
		}},
		"late end": {message(nil, large+"a"), message(nil, large+"b"), []string{
			`payload: sent "` + large[:39] + `a" (bytes 4961 to 5001 of 5001), ` +
				`received "` + large[:39] + `b" (bytes 4961 to 5001 of 5001)`,
		}},
	} {
		if got := differences(c.sent, c.got); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", name, got, c.want)
		}
	}
}
