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
		"start --help":          "outbox-relay run",
		"serve --help":          "outbox-relay run",
		"check --help":          "outbox-relay doctor",
		"health --help":         "outbox-relay healthcheck",
		"license --help":        "outbox-relay licenses",
		"failed ls --help":      "outbox-relay failed list",
		"failed rm --help":      "outbox-relay failed discard",
		"settings kafka":        "OUTBOX_KAFKA_SASL_MECHANISM",
		"help settings amqp":    "OUTBOX_AMQP_EXCHANGE",
		"help settings limits":  "OUTBOX_MAX_ATTEMPTS",
		"help settings":         "OUTBOX_DATABASE_URL",
		"ddl":                   "did you mean schema?",
		"lag":                   "did you mean status?",
		"purge":                 "did you mean prune?",
		"resend":                "did you mean replay?",
		"env":                   "did you mean config?",
		"failed requeue --help": "outbox-relay failed",
	} {
		if _, out, errs := execute(t, nil, strings.Fields(typed)...); !strings.Contains(out+errs, want) {
			t.Errorf("outbox-relay %s says nothing of %q:\n%s%s", typed, want, out, errs)
		}
	}
}
