package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/operate"
	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/sql"
)

// TestStatusCommand reads the table, and asks a relay on this host if there is one.
func TestStatusCommand(t *testing.T) {
	s, env := failedRows(t)
	s.Exec(t, "insert into outbox_messages (topic, payload, last_error, inserted_at) select 'late', '{}', 'no', now() - "+
		"interval '3 hours' "+
		"from generate_series(1, 7)")
	id := pgtest.Value[string](t, s, "select id::text from outbox_messages where topic = 'late' limit 1")
	nobody := httptest.NewServer(http.NotFoundHandler())
	away := append(env, "OUTBOX_HTTP_ADDR="+nobody.Listener.Addr().String())
	status, out, errs := execute(t, away, "status", "--id", id)
	words := func(text string) string {
		text = regexp.MustCompile("3h0m[0-9]+s").ReplaceAllString(text, "3h0m0s") // the test takes time
		return strings.Join(strings.Fields(text), " ")
	}
	for _, want := range []string{
		"default      7    7         0          ?     60      3h0m0s  ?", "shards owned: 0 of 16",
		"default      late    7    7         0          0       3h0m0s",
		"default  retrying  attempt 1  no replica owns its shard",
		"only a running relay knows, and none answers at OUTBOX_HTTP_ADDR=",
	} {
		if status != 0 || !strings.Contains(words(out), words(want)) {
			t.Errorf("status %d, without %q:\n%s%s", status, want, out, errs)
		}
	}
	status, out, errs = execute(t, away, "status", "--json", "--topic", "topic1", "--id",
		"00000000-0000-0000-0000-000000000000")
	var r operate.Report
	if err := json.Unmarshal([]byte(out), &r); status != 0 || err != nil || *r.Destinations[0].Due != 0 ||
		*r.Destinations[0].Failed != 20 ||
		len(r.Problems) != 2 {
		t.Errorf("status %d: %v\n%s%s", status, err, out, errs)
	}
	relay := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.URL.Path != "/status" {
			http.NotFound(w, request)
			return
		}
		_ = json.NewEncoder(w).Encode(operate.Report{
			Table: s.Name + ".outbox_messages", Process: &operate.Process{Version: "1.2.3"},
			Destinations: []operate.Destination{{
				Name: "default", Process: &operate.DestinationProcess{
					Up: true, Reasons: []operate.ReasonRows{{Reason: "topology", Rows: 5}},
					Holds: []operate.Hold{{
						Reason: "topology", What: "topic late", Topics: []string{"late"}, Error: "there is no such topic",
						Since: time.Now(),
					}},
				},
			}},
		})
	}))
	defer relay.Close()
	status, out, errs = execute(t, append(env, "OUTBOX_HTTP_ADDR="+relay.Listener.Addr().String()), "status", "--id", id)
	for _, want := range []string{
		"default      7    7         0          5     60      3h0m0s  up, with something held",
		"default  retrying  attempt 1  topic late is held (topology): there is no such topic",
	} {
		if status != 0 || !strings.Contains(words(out), words(want)) || strings.Contains(out, "none answers") {
			t.Errorf("with a relay: status %d, without %q:\n%s%s", status, want, out, errs)
		}
	}
}

// TestStatusOfAHeldTopic: the reason why a row is held is found by the topic that the row has on the broker, whatever
// template makes it.
func TestStatusOfAHeldTopic(t *testing.T) {
	s, env := failedRows(t)
	id := pgtest.Value[string](t, s,
		`insert into outbox_messages (topic, payload) values ('late', '{"kind": "big"}') returning id::text`)
	for name, c := range map[string]struct {
		template, topic string // topic is held
		held            bool
	}{
		"as it is":                   {"", "late", true},
		"prefixed":                   {"shop.{topic}", "shop.late", true},
		"another topic":              {"shop.{topic}", "late", false},
		"by the payload":             {"{payload.kind}-{topic}", "big-late", true},
		"a value that is missing":    {"{header.kind}-{topic}", "big-late", false},
		"a column that is not there": {"{kind}-{topic}", "big-late", false},
	} {
		relay := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			hold := operate.Hold{Reason: "topology", What: "topic " + c.topic, Topics: []string{c.topic}, Error: "no stream"}
			_ = json.NewEncoder(w).Encode(operate.Report{Table: s.Name + ".outbox_messages", Destinations: []operate.Destination{
				{Name: "default", Process: &operate.DestinationProcess{Up: true, Holds: []operate.Hold{hold}}},
			}})
		}))
		defer relay.Close()
		status, out, errs := execute(t,
			append(env, "OUTBOX_HTTP_ADDR="+relay.Listener.Addr().String(), "OUTBOX_TOPIC="+c.template),
			"status", "--id", id)
		_, row, _ := strings.Cut(out, "row "+id)
		if status != 0 || strings.Contains(row, "topic "+c.topic+" is held (topology): no stream") != c.held {
			t.Errorf("%s: status %d\n%s%s", name, status, out, errs)
		}
	}
}

// TestStatusOfAPausedDestination: every due row of it is held, whether or not the relay could count them. Rows that
// nobody could count are unknown.
func TestStatusOfAPausedDestination(t *testing.T) {
	s, env := failedRows(t)
	s.Exec(t, "insert into outbox_messages (topic, payload) select 'late', '{}' from generate_series(1, 7)")
	paused := func(d operate.Destination, reasons ...operate.ReasonRows) operate.Destination {
		d.Name, d.Process = "default", &operate.DestinationProcess{Up: true, Paused: true, Reasons: reasons}
		return d
	}
	for _, c := range []struct {
		name, drop string
		reported   operate.Destination
		held       *int64
	}{
		{"not counted", "", paused(operate.Destination{}), new(int64(7))},
		{"counted as none", "", paused(operate.Destination{Held: new(int64(0))}), new(int64(7))},
		{
			"counted", "", paused(operate.Destination{Held: new(int64(7))}, operate.ReasonRows{Reason: "paused", Rows: 7}),
			new(int64(7)),
		},
		{
			"more of them held", "",
			paused(operate.Destination{Held: new(int64(9))}, operate.ReasonRows{Reason: "topology", Rows: 9}),
			new(int64(9)),
		},
		{
			"counted by the relay alone", "drop index outbox_messages_pending_idx, outbox_messages_key_idx",
			paused(operate.Destination{Held: new(int64(7))},
				operate.ReasonRows{Reason: "paused", Rows: 7}), new(int64(7)),
		},
		{"counted by nobody", "", paused(operate.Destination{Held: new(int64(0))}), nil},
	} {
		if c.drop != "" {
			s.Exec(t, c.drop)
		}
		relay := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(operate.Report{
				Table:        s.Name + ".outbox_messages",
				Destinations: []operate.Destination{c.reported},
			})
		}))
		defer relay.Close()
		var r operate.Report
		status, out, errs := execute(t, append(env, "OUTBOX_HTTP_ADDR="+relay.Listener.Addr().String()), "status", "--json")
		if err := json.Unmarshal([]byte(out), &r); status != 0 || err != nil {
			t.Fatalf("status %d: %v\n%s%s", status, err, out, errs)
		}
		if d := r.Destinations[0]; (d.Held == nil) != (c.held == nil) || d.Held != nil && *d.Held != *c.held ||
			d.Held != nil && !slices.ContainsFunc(d.Process.Reasons,
				func(r operate.ReasonRows) bool { return r.Reason == "paused" && r.Rows == 7 }) {
			t.Errorf("%s:\n%s%s", c.name, out, errs)
		}
	}
}

// The text of a report shows the states first, marks counts that are lower bounds, also those of topics, and cuts long
// topics.
func TestStatusText(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300)
	b := operate.Backlog{
		Due: new(int64(3)), Failed: new(int64(10001)), AtLeast: []string{"failed"},
		Topics: []operate.Topic{
			{Topic: "orders.\u009b1m\u202e", Failed: 1000, Due: 3}, {Topic: long, Failed: 9001},
		},
	}
	r := operate.Report{
		Destinations: []operate.Destination{
			{Name: "default", Backlog: b},
			{Name: "audit", Process: &operate.DestinationProcess{Up: true}},
		}, Problems: []string{"no index"},
		Ownership: &operate.Ownership{},
		Process: &operate.Process{Checks: []operate.Check{
			{Name: "database", OK: true},
			{Name: "ownership", Text: "no connection"},
			{Name: "destination default", Text: "down"},
			{Name: "marks", OK: true, Text: "rows that cannot be written now: 1"},
		}},
	}
	out := statusText(r)
	words := strings.Join(strings.Fields(out), " ")
	for _, want := range []string{
		"default 3 ? ? ? 10001+", "orders.\uFFFD1m\uFFFD 3 0 0 1000+ -", "x… 0 0 0 9001+",
		"! ownership: no connection ! marks: rows that cannot be written now: 1",
	} {
		if !strings.Contains(words, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, long) || !strings.HasSuffix(words, "! no index") {
		t.Errorf("%s", out)
	}
}

// TestWatch draws as much as fits.
func TestWatch(t *testing.T) {
	t.Parallel()
	for height, want := range map[int]string{4: "1 2 3", 3: "1 2", 2: "1"} {
		got := strings.NewReplacer("\x1b[H", "", "\x1b[K", "", "\n", " ", "\x1b[J", "").Replace(frame("1\n2\n3\n", height))
		if strings.TrimSpace(got) != want {
			t.Errorf("a frame of %d lines is %q, not %q", height, got, want)
		}
	}
	for seconds, want := range map[float64]string{0.42: "0s", 59: "59s", 61: "1m1s", 3661: "1h1m1s"} {
		if got := age(&seconds); got != want {
			t.Errorf("%v seconds are %s, not %s", seconds, got, want)
		}
	}
}

// TestOddTimes shows rows whose times are infinite, which applications use to park them, or outside the range of JSON
// and intervals.
func TestOddTimes(t *testing.T) {
	s := pgtest.New(t)
	s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
	s.Exec(t, "alter table outbox_messages add available_at timestamptz")
	s.Exec(t, `insert into outbox_messages (id, topic, payload, inserted_at, available_at, failed_at, relayed_at)
		select md5(at || state)::uuid, 't', '{}', case when state = 'inserted' then at::timestamptz else now() end, case when
		state = 'due' then
		at::timestamptz end,
			case when state = 'failed' then at::timestamptz end, case when state = 'relayed' then at::timestamptz end
		from unnest(array['-infinity', '4713-01-01 BC', '2020-01-01', '294276-12-31', 'infinity']) at,
		unnest(array['inserted', 'due', 'failed',
		'relayed']) state`)
	env := []string{"OUTBOX_DATABASE_URL=" + s.URL}
	ids := pgtest.Value[string](t, s, "select string_agg(id::text, ',') from outbox_messages")
	for _, command := range []string{
		"status", "status --json", "status --id " + ids, "status --json --id " + ids, "failed list",
		"failed list --json", "failed show",
		"failed retry --dry-run", "replay --dry-run", "prune --older-than 1d --dry-run",
	} {
		if status, out, errs := execute(t, env, strings.Fields(command)...); status != 0 ||
			strings.Contains(out, "infinity") {
			t.Errorf("%s: status %d: %s%s", command, status, out, errs)
		}
	}
}
