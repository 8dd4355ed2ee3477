package cli

import (
	"context"
	"encoding/json"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/operate"
)

// liveReport makes the report of /status: what the relay knows, and which build it is.
type liveReport struct {
	assembly *assembly
	started  time.Time
}

// report returns the report now. The page is served to whoever reaches the port, unless OUTBOX_HTTP_CONFIG asks for a
// password; without details the report names neither hosts nor roles.
func (l *liveReport) report(ctx context.Context, details bool) operate.Report {
	var r operate.Report
	if err := json.Unmarshal(l.assembly.Report(ctx, details), &r); err != nil {
		r.Note("the report cannot be read: " + err.Error())
		return r
	}
	build := thisBuild()
	r.Process.Version, r.Process.Commit, r.Process.StartedAt = build.Version, build.Commit, l.started.UTC()
	return r
}
