package relay

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
	"github.com/outbox-relay/outbox-relay/sql"
)

// A relay that deletes what it has relayed loses rows for which another deployment's destination waits. It relays
// nothing while the table keeps the state of such a destination, and notices when its columns are added.
func TestDeletesNothingThatOthersWaitFor(t *testing.T) {
	t.Parallel()
	s, b := pgtest.New(t), publishertest.NewBroker()
	s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
	deletes := func(c *tested) { c.Delete = true }
	r := replica(t, s, b, deletes)
	start(t, r)
	rows := func() int { return pgtest.Value[int](t, s, "select count(*) from outbox_messages") }
	s.Exec(t, insertKeyed, 5)
	eventually(t, "alone it deletes", func() bool { return len(b.All()) == 5 && rows() == 0 })
	audit := outbox.Config{Table: sql.Table{Name: "outbox_messages"}}
	s.Exec(t, audit.OwnSchema(outbox.View{Name: "audit", Columns: map[string]string{"relayed_at": "audit_relayed_at"}}))
	eventually(t, "not ready, with the column", func() bool { return strings.Contains(notReady(r), "audit_relayed_at") })
	s.Exec(t, insertKeyed, 5)
	drain := replica(t, s, b, deletes)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	err := drain.Drain(ctx)
	if left := new(LeftError); err == nil || errors.As(err, &left) ||
		!strings.Contains(err.Error(), "it would lose rows") {
		t.Errorf("drain: %v", err)
	}
	if n := rows(); n != 5 || len(b.All()) != 5 {
		t.Errorf("%d rows are left and %d were published, not 5 and 5", n, len(b.All()))
	}
	s.Exec(t, "alter table outbox_messages drop column audit_relayed_at")
	eventually(t, "it deletes again", func() bool { return len(b.All()) == 10 && rows() == 0 })
}
