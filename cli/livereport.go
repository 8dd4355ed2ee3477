package cli

import (
	"context"
	"encoding/json"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/operate"
)

// liveReport is the report of /status: what the relay knows now, and which build it is. The page is served to whoever
// reaches the port, unless OUTBOX_HTTP_CONFIG asks for a password; without details the report names neither hosts nor
// roles.
func liveReport(ctx context.Context, a *assembly, started time.Time, details bool) (r operate.Report) {
	if err := json.Unmarshal(a.Report(ctx, details), &r); err != nil {
		r.Note("the report cannot be read: " + err.Error())
		return r
	}
	build := thisBuild()
	r.Process.Version, r.Process.Commit, r.Process.StartedAt = build.Version, build.Commit, started
	return r
}
