package cli

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// ownBroker is a broker of a user's own whose messages can be read. It holds none.
type ownBroker struct{ publisher.Publisher }

func (ownBroker) Close() error { return nil }

func (ownBroker) Read(context.Context, []string, time.Time, time.Time, func(*publisher.Stored)) (
	map[string]publisher.Held, error,
) {
	return nil, nil
}

// TestVerifyOwnBroker compares rows with what a broker of a user's own holds, if its publisher can read.
func TestVerifyOwnBroker(t *testing.T) {
	_, env := failedRows(t)
	for _, entry := range append(env, "OUTBOX_PUBLISH_URL=own://broker") {
		name, value, _ := strings.Cut(entry, "=")
		t.Setenv(name, value)
	}
	p := &program{schemes: map[string]opener{
		"own": func(func() (string, error), *slog.Logger) (publisher.Publisher, error) { return ownBroker{}, nil },
	}}
	var out, errs strings.Builder
	args := []string{"verify", "--until", time.Now().Add(time.Hour).Format(time.RFC3339)}
	status := p.execute(t.Context(), args, strings.NewReader(""), &out, &errs)
	if status != 1 || !strings.Contains(errs.String(), "60 rows missing") {
		t.Errorf("status %d: %s%s", status, out.String(), errs.String())
	}
}
