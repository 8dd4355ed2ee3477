package relay

import (
	"slices"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/outbox"
	"github.com/outbox-relay/outbox-relay/publisher"
)

func TestTemplate(t *testing.T) {
	row := &outbox.Row{Message: publisher.Message{Topic: "orders"}, Extra: []string{"eu", "7", ""}, Nulls: 0b100}
	for text, want := range map[string]string{
		"": "orders", "{topic}": "orders", "shop.{topic}": "shop.orders", "{region}-{topic}.v{version}": "eu-orders.v7", "fixed": "fixed",
		"{{topic}}": "{topic}", "a{{b": "a{b", "a}}b": "a}b", "{{{topic}}}": "{orders}", "{{{{": "{{", "{region}}}": "eu}", "{{}}{region}": "{}eu",
	} {
		template, extra, err := ParseTemplate(text, []string{"region", "version"})
		if err != nil || !slices.Equal(extra, []string{"region", "version"}) {
			t.Fatalf("%s: %q, %v", text, extra, err)
		}
		if fixed := text == "fixed" || strings.HasPrefix(text, "a") || text == "{{{{" || text == "{{topic}}"; template.Fixed() != fixed {
			t.Errorf("%s is fixed: %v", text, !fixed)
		}
		if got, err := template.render(row); got != want || err != nil {
			t.Errorf("%s gives %q, %v, want %q", text, got, err, want)
		}
	}
	template, extra, err := ParseTemplate("{tenant}", []string{"region", "version"})
	if err != nil || !slices.Equal(extra, []string{"region", "version", "tenant"}) {
		t.Fatal(extra, err)
	}
	if _, err := template.render(row); publisher.ClassOf(err) != publisher.Permanent {
		t.Errorf("NULL in the template: %v", err)
	}
	for _, text := range []string{"{", "}", "{}", "a{b", "{a{b}}", "a}b", "{{{", "{}}", "{a}}", "{{a}", "a}}}", "{{{a{{}"} {
		if _, _, err := ParseTemplate(text, nil); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}
