package doctor

import (
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// Ids that two rows may share cause a warning with its remedy.
func TestMessageIDs(t *testing.T) {
	t.Parallel()
	const example = "7.5/public.outbox_messages/1@9"
	for name, test := range map[string]struct {
		form   outbox.IDForm
		prefix string
		found  []string // one word of each finding and of its remedy
	}{
		"uuid":       {outbox.IDForm{UUID: true}, "", []string{"uuid|"}},
		"everything": {outbox.IDForm{Cluster: true, Timed: true, Example: example}, "", []string{example + "|"}},
		"prefix":     {outbox.IDForm{Timed: true, Example: example}, "shop", []string{"shop/public.outbox_messages/1@9|"}},
		"no right":   {outbox.IDForm{Timed: true, Example: example}, "", []string{"system identifier|pg_control_system"}},
		"no time":    {outbox.IDForm{Cluster: true, Example: example}, "", []string{"restart identity|inserted_at"}},
		"neither": {outbox.IDForm{Example: example}, "", []string{
			"system identifier|DedupPrefix",
			"restart identity|inserted_at",
		}},
		"prefix, no time": {outbox.IDForm{Example: example}, "shop", []string{"restart identity|inserted_at"}},
	} {
		found := messageIDs(test.form, test.prefix, nil)
		if len(found) != len(test.found) {
			t.Errorf("%s: %+v", name, found)
			continue
		}
		for i, f := range found {
			says, remedy, _ := strings.Cut(test.found[i], "|")
			if !strings.Contains(f.Found, says) || !strings.Contains(f.Remedy, remedy) ||
				(f.Severity == finding.OK) != (remedy == "") {
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
}
