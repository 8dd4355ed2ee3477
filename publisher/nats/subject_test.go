package nats

import (
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/publisher"
)

func TestCheckSubject(t *testing.T) {
	for _, legal := range []string{
		"a", "orders", "orders.created", "orders.eu-1.42", "Bestellungen.Größe.東京", "a.b*c.d>", "a.$b", "_x",
		"_INBOX", "_INBOXES.a", "a._INBOX.b", "a:b/c",
		strings.Repeat("x", maxSubject), strings.Repeat("x.", maxSubject/2-1) + "x",
	} {
		if err := checkSubject(legal, "_INBOX."); err != nil {
			t.Errorf("%.40q: %v", legal, err)
		}
	}
	for _, illegal := range []string{
		"", ".", "..", ".a", "a.", "a..b", " ", "a b", "a\tb", "a\rb", "a\nb", "a\x00b", "a\x7fb", "a ", "*", ">",
		"a.*", "*.a", "a.>", "a.>.b",
		"$JS.API.INFO", "$SYS", "$KV.bucket.key", "_INBOX.a", "_INBOX.a.b", "_INBOX_shop.a",
		strings.Repeat("x", maxSubject+1),
	} {
		err := checkSubject(illegal, "_INBOX_shop.")
		if publisher.ClassOf(err) != publisher.Permanent {
			t.Errorf("%.40q is %v", illegal, publisher.ClassOf(err))
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("%.40q: the error has %d bytes", illegal, len(err.Error()))
		}
	}
}

// A longer inbox leaves less room on the line that the server reads.
func TestSubjectsBesideLongInboxes(t *testing.T) {
	inboxes := strings.Repeat("i", 128) + "."
	for length, legal := range map[int]bool{maxSubject - 122: true, maxSubject - 121: false} {
		if err := checkSubject(strings.Repeat("x", length), inboxes); (err == nil) != legal {
			t.Errorf("%d bytes beside an inbox of %d: %v", length, len(inboxes), err)
		}
	}
}

// Characters at which the server splits or ends a line must never get through.
func FuzzCheckSubject(f *testing.F) {
	f.Add("orders.created")
	f.Add("a..b")
	f.Add("$JS")
	f.Fuzz(func(t *testing.T, subject string) {
		if checkSubject(subject, "_INBOX.") != nil {
			return
		}
		if subject == "" || strings.ContainsAny(subject, " \t\r\n\f\x00") || strings.HasPrefix(subject, "$") ||
			strings.HasPrefix(subject, "_INBOX.") {
			t.Errorf("%q passes", subject)
		}
		for token := range strings.SplitSeq(subject, ".") {
			if token == "" || token == "*" || token == ">" {
				t.Errorf("%q passes", subject)
			}
		}
	})
}
