package e2e

import (
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// TestBadRows mixes rows that a broker can never accept with good ones. Each bad row fails alone, at once, with a
// reason. All other rows arrive, including those of the same key.
func TestBadRows(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b broker) {
		topic, outbox := b.topic(t), newTable(t)
		large := strings.Repeat("x", 2<<20)
		type bad struct{ topic, headers, payload string }
		rows := map[string]bad{
			"reserved header": {topic, `{"message-id": "mine"}`, `{}`},
			"steering header": {topic, `{"Nats-Msg-Id": "mine"}`, `{}`},
			"long topic":      {strings.Repeat("t", 300), `{}`, `{}`},
		}
		switch b.name() {
		case "kafka":
			rows["illegal topic"] = bad{"a b/c", `{}`, `{}`}
			rows["empty topic"] = bad{"", `{}`, `{}`}
			rows["too large"] = bad{topic, `{}`, `"` + large + `"`}
		case "nats":
			delete(rows, "long topic") // NATS has no limit of its own
			rows["illegal topic"] = bad{"a b", `{}`, `{}`}
			rows["wildcard"] = bad{"orders.*", `{}`, `{}`}
			rows["empty topic"] = bad{"", `{}`, `{}`}
			rows["header name"] = bad{topic, `{"a:b": "c"}`, `{}`}
			rows["header value"] = bad{topic, `{"a": "b\r\nc: d"}`, `{}`}
			rows["too large"] = bad{topic, `{}`, `"` + large + `"`}
		case "rabbitmq":
			rows["long header name"] = bad{topic, `{"` + strings.Repeat("h", 300) + `": "v"}`, `{}`}
			rows["long correlation id"] = bad{topic, `{"correlation-id": "` + strings.Repeat("c", 300) + `"}`, `{}`}
			rows["headers too large"] = bad{topic, `{"h": "` + large + `"}`, `{}`}
		}
		outbox.insert(topic, 0, 500, 10)
		for name, row := range rows {
			outbox.Exec(t, "insert into outbox_messages (topic, key, payload, headers) values ($1, 'k1', $2, $3)", row.topic,
				row.payload,
				row.headers)
			t.Log("bad row:", name)
		}
		outbox.insert(topic, 500, 500, 10)

		r := startRelay(t, outbox.env(b.url()))
		outbox.awaitDrained()
		if failed := outbox.count(isFailed); failed != len(rows) {
			t.Errorf("%d rows have failed, want %d", failed, len(rows))
		}
		if odd := outbox.count(isFailed +
			" and (attempt <> 2 or coalesce(last_error, '') = '' or relayed_at is not null)"); odd > 0 {
			t.Errorf("%d failed rows are not as they should be", odd)
		}
		outbox.checkUnspent(isRelayed)
		reasons := pgtest.Value[[]string](t, outbox.Schema,
			"select array_agg(last_error) from outbox_messages where failed_at is not null")
		t.Logf("reasons: %q", reasons)
		check(t, outbox, b.received(t, topic))
		r.awaitReady()
		if failed := r.metric(`rows_failed_total{destination="default",reason="permanent"}`); failed == "" || failed == "0" {
			t.Errorf("rows_failed_total is %q", failed)
		}
	})
}

// TestMissingTopic: the rows of a topic that does not exist are held, and no others. They spend no attempts, and flow
// when the topic has been made.
func TestMissingTopic(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b broker) {
		topic, missing, outbox := b.topic(t), uniqueTopic(), newTable(t)
		const rows = 300
		outbox.Exec(t, `insert into outbox_messages (topic, key, payload)
			select case when i % 3 = 0 then $2 else $1 end, case when i % 3 = 0 then 'm' else 'k' end || i % 5,
			jsonb_build_object('n', i)
			from generate_series(1, $3) i`, topic, missing, rows)
		r := startRelay(t, outbox.env(b.url()))
		outbox.awaitRelayed(rows * 2 / 3)
		await(t, "the metrics show the held rows", func() bool {
			held := r.metric(`rows_held{destination="default",reason="topology"}`)
			return held != "" && held != "0"
		})
		if pending := outbox.count(isPending + " and attempt = 1 and last_error is null"); pending != rows/3 {
			t.Errorf("%d rows wait untouched, want %d", pending, rows/3)
		}
		if !strings.Contains(r.Log(), missing) {
			t.Error("the log does not name the missing topic")
		}
		b.create(t, missing)
		took := await(t, "the held rows flow", func() bool { return outbox.count(isPending) == 0 })
		t.Logf("relayed %v after the topic was made", took)
		got := append(b.received(t, topic), b.received(t, missing)...)
		check(t, outbox, got)
	})
}

// TestBadRowDelaysNobody sends 300 rows of as many keys, with one row among them that the broker cannot accept. That
// row fails or waits alone. None of the others fails, is held, or arrives twice or late.
func TestBadRowDelaysNobody(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b broker) {
		for name, bad := range map[string]struct {
			topic   string // empty: the topic of the other rows
			payload string
			ends    string // expected outcome of the row
		}{
			"2 MiB":         {"", `"` + strings.Repeat("x", 2<<20) + `"`, isFailed},
			"unknown topic": {uniqueTopic(), `{}`, isPending + " and attempt = 1 and last_error is null"},
		} {
			if b.name() == "rabbitmq" && bad.topic == "" {
				continue // accepts the row
			}
			t.Run(name, func(t *testing.T) { badRow(t, b, bad.topic, bad.payload, bad.ends) })
		}
	})
}

func badRow(t *testing.T, b broker, badTopic, payload, ends string) {
	t.Parallel()
	const rows = 300
	topic, outbox := b.topic(t), newTable(t)
	r := startRelay(t, outbox.env(b.url()))
	r.awaitReady()
	if badTopic == "" {
		badTopic = topic
	}
	outbox.Exec(t, `insert into outbox_messages (topic, key, payload) select case when i = $1 / 2 then $2 else $3 end, 'k'
		|| i,
		case when i = $1 / 2 then $4::jsonb else jsonb_build_object('n', i) end from generate_series(0, $1) i order by i`,
		rows, badTopic, topic, payload)
	outbox.awaitRelayed(rows)
	const others = "where relayed_at is not null"
	if spread := pgtest.Value[float64](t, outbox.Schema,
		"select extract(epoch from max(relayed_at) - min(relayed_at))::float8 from outbox_messages "+others); spread > 1 {
		t.Errorf("the last of the others was relayed %.1f s after the first", spread)
	}
	outbox.checkUnspent(isRelayed)
	await(t, "the bad row ends as it should", func() bool { return outbox.count(ends) == 1 })
	if n := len(b.received(t, topic)); n != rows {
		t.Errorf("%d of %d messages have arrived", n, rows)
	}
}
