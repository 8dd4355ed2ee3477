package e2e

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// With OUTBOX_TRACE_ROWS a collector receives a span for the batch and one for each row whose trace is sampled.
func TestRowTraces(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var received bytes.Buffer
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		received.Write(body)
	}))
	defer collector.Close()
	trace, err := hex.DecodeString(strings.Split(traceparent, "-")[1])
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, endpoint string
		spans          bool
	}{{"collector", collector.URL, true}, {"no collector", "", false}} {
		outbox := newTable(t)
		outbox.Exec(t, `insert into outbox_messages (topic, payload, headers) values ('t', '{}', '{"traceparent": "`+
			traceparent+`"}')`)
		code, _, log := runCommand(t,
			outbox.env("stdout:", "OUTBOX_TRACE_ROWS=true", "OTEL_EXPORTER_OTLP_ENDPOINT="+c.endpoint), "drain")
		if code != 0 {
			t.Fatalf("%s: status %d: %s", c.name, code, log)
		}
		mu.Lock()
		got := received.String()
		received.Reset()
		mu.Unlock()
		for _, want := range []string{"send default", "relay default", "outbox_relay.attempt", string(trace)} {
			if strings.Contains(got, want) != c.spans {
				t.Errorf("%s: %q is among the spans: %v", c.name, want, !c.spans)
			}
		}
		if warned := strings.Contains(log, "OUTBOX_TRACE_ROWS has no effect"); warned == c.spans {
			t.Errorf("%s: warned: %v\n%s", c.name, warned, log)
		}
	}
}
