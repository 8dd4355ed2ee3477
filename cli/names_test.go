package cli

import (
	"strings"
	"testing"
)

// What people type without reading is understood, or answered with the command that they mean.
func TestOtherNames(t *testing.T) {
	for typed, want := range map[string]string{
		"--version":             "outbox-relay ",
		"-v":                    "outbox-relay ",
		"version":               "outbox-relay ",
		"settings kafka":        "OUTBOX_KAFKA_SASL_MECHANISM",
		"help settings limits":  "OUTBOX_MAX_ATTEMPTS",
		"help settings":         "OUTBOX_DATABASE_URL",
		"failed requeue --help": "outbox-relay failed",
	} {
		if _, out, errs := execute(t, nil, strings.Fields(typed)...); !strings.Contains(out+errs, want) {
			t.Errorf("outbox-relay %s says nothing of %q:\n%s%s", typed, want, out, errs)
		}
	}
}
