package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/operate"
)

// hostile is the name of a topic that a page must not treat as markup.
const hostile = `<img src=x onerror="document.title='taken'">`

// busy starts a relay with rows that were relayed, rows of a topic whose stream is missing, rows that become due later,
// and rows that have failed.
func busy(t *testing.T, more ...string) (r *relay, held string) {
	t.Helper()
	outbox := newShape(t, recommended(t)+"alter table outbox_messages add available_at timestamptz;")
	b := newNATS(t, endpoint(t, "TEST_NATS_URL"))
	held = uniqueTopic()
	outbox.Exec(t, "insert into outbox_messages (topic, key, payload, failed_at, last_error) select $1, 'secret-key', "+
		"'{\"secret\": "+
		"\"payload\"}', now(), 'no' from generate_series(1, 3)", hostile)
	outbox.Exec(t, "insert into outbox_messages (topic, payload, available_at) values ('later', '{}', now() + interval "+
		"'1 day')")
	outbox.insert(b.topic(t), 0, 500, 10)
	outbox.insert(held, 0, 5, 1)
	r = startRelay(t, outbox.env(b.url(), more...))
	await(t, "rows are relayed and others are held", func() bool {
		held := r.metric(`rows_held{destination="default",reason="topology"}`)
		return r.metric(`rows_relayed_total{destination="default"}`) == "500" && held != "" && held != "0"
	})
	return r, held
}

// TestStatus compares /status with the actual state, both of the table and of the process.
func TestStatus(t *testing.T) {
	t.Parallel()
	r, held := busy(t)
	var report operate.Report
	var body string
	await(t, "the report shows all rows", func() bool { // a part may be a second old
		var status int
		status, body = r.get("/status")
		report = operate.Report{}
		if err := json.Unmarshal([]byte(body), &report); err != nil || status != http.StatusOK {
			t.Fatalf("%d %v: %.500s", status, err, body)
		}
		d := report.Destinations[0]
		return d.Due != nil && *d.Due == 5 && *d.Failed == 3 && *d.Scheduled == 1 && d.Held != nil && *d.Held > 0 &&
			len(d.Process.Holds) == 1 && d.Process.Holds[0].Reason == "topology" &&
			report.Ownership != nil && report.Ownership.Owned == 16
	})
	d, p := report.Destinations[0], report.Process
	if h := d.Process.Holds[0]; h.Reason != "topology" || fmt.Sprint(h.Topics) != "["+held+"]" ||
		!strings.Contains(h.Error, held) ||
		h.Since.IsZero() {
		t.Errorf("%+v", h)
	}
	if d.Topics[0].Topic != hostile || d.Topics[0].Failed != 3 || d.Name != "default" || !d.Process.Up ||
		*d.OldestAgeSeconds <= 0 {
		t.Errorf("%+v", d)
	}
	relayed, latencies := int64(0), 0
	for _, i := range d.Process.History {
		relayed += i.Relayed
		if i.LatencyP50 != nil && i.LatencyP99 != nil && *i.LatencyP50 > 0 && *i.LatencyP99 >= *i.LatencyP50 {
			latencies++
		}
	}
	if relayed != 500 || d.Process.Relayed != 500 || latencies == 0 {
		t.Errorf("%d rows and %d latencies in %+v", relayed, latencies, d.Process.History)
	}
	if o := report.Ownership; o.Owned != 16 || o.Unowned != 0 || len(o.Replicas) != 1 || p.Shards != 16 || !p.Ready ||
		len(p.Checks) < 4 {
		t.Errorf("%+v, %+v", o, p)
	}
	if len(report.Problems) > 0 || strings.Contains(body, "secret-key") || strings.Contains(body, "payload") ||
		strings.Contains(body, "filler") {
		t.Errorf("problems, a key or a payload: %s", body)
	}
	if log := r.Log(); strings.Contains(log, "secret-key") || strings.Contains(log, "filler") {
		t.Error("a key or a payload was logged")
	}
	if status, page := r.get("/"); status != http.StatusOK || !strings.Contains(page, "<title>outbox-relay</title>") {
		t.Errorf("the page: %d", status)
	}
}

// TestStatusWhilePaused: rows of a paused destination are held, and the report says so.
func TestStatusWhilePaused(t *testing.T) {
	t.Parallel()
	outbox := newTable(t)
	outbox.insert("orders", 0, 7, 2)
	r := startRelay(t, outbox.env("stdout:", "OUTBOX_PAUSE=true"))
	await(t, "the report shows the pause", func() bool {
		_, body := r.get("/status")
		var report operate.Report
		if json.Unmarshal([]byte(body), &report) != nil || report.Destinations[0].Held == nil {
			return false
		}
		d := report.Destinations[0]
		return d.Process.Paused && *d.Held == 7 && fmt.Sprint(d.Process.Reasons) == "[{paused 7}]"
	})
}

// TestStatusWithoutDatabase: the report is available without the database, and says what is unknown.
func TestStatusWithoutDatabase(t *testing.T) {
	t.Parallel()
	r := startRelay(t, settings{
		"OUTBOX_DATABASE_URL=postgres://someone@127.0.0.1:1/shop", "OUTBOX_PUBLISH_URL=stdout:",
		"OUTBOX_DESTINATIONS=orders,audit",
		"OUTBOX_DESTINATION_ORDERS_TOPICS=order.*",
	})
	var report operate.Report
	await(t, "the report says why", func() bool {
		_, body := r.get("/status")
		report = operate.Report{}
		return json.Unmarshal([]byte(body), &report) == nil && report.Process != nil && len(report.Problems) > 0 &&
			strings.Contains(fmt.Sprint(report.Process.Checks), "127.0.0.1:1")
	})
	if len(report.Destinations) != 2 || report.Destinations[1].Name != "audit" || report.Destinations[0].Due != nil ||
		report.Process.Ready {
		t.Errorf("%+v", report)
	}
}

// TestUntakenRows: rows that no destination takes wait and are counted, the log names their topics, and a drain that
// leaves them says so and does not wait for them.
func TestUntakenRows(t *testing.T) {
	t.Parallel()
	outbox := newTable(t)
	outbox.insert("orders", 0, 3, 3)
	env := outbox.env("stdout:", "OUTBOX_DESTINATIONS=a", "OUTBOX_DESTINATION_A_TOPICS=others")
	r := startRelay(t, env)
	await(t, "the rows are held", func() bool {
		return r.metric(`rows_held{destination="none",reason="topology"}`) == "3" &&
			r.metric(`pending_rows{destination="none"}`) == "3"
	})
	await(t, "the log names the topic", func() bool {
		return strings.Contains(r.Log(), `no destination takes rows of topic \"orders\"`)
	})
	code, _, problems := runCommand(t, env, "drain", "--timeout", "10m")
	if code != 3 || !strings.Contains(problems, "rows left: 3 (no destination 3") {
		t.Errorf("drain: status %d: %s", code, problems)
	}
}
