package examples

import (
	"bytes"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	documented = regexp.MustCompile("`([a-z_]+)(?:\\{([a-z_,]+)\\})?`")
	sample     = regexp.MustCompile(`(?m)^outbox_relay_(\w+?)(?:_bucket|_sum|_count)?(?:\{(.*)\})? \S+$`)
	label      = regexp.MustCompile(`(\w+)="`)
)

// A running relay has the metrics and labels of the documented table, and no others.
func TestMetrics(t *testing.T) {
	text := read(t, "docs/metrics.md")
	_, section, _ := strings.Cut(text, "| metric | meaning |\n|---|---|\n")
	table, _, _ := strings.Cut(section, "\n\n")
	want := map[string]string{}
	for row := range strings.Lines(table) {
		for _, match := range documented.FindAllStringSubmatch(strings.Split(row, "|")[1], -1) {
			want[match[1]] = sorted(strings.Split(match[2], ","))
		}
	}
	got := map[string]string{}
	for _, match := range sample.FindAllStringSubmatch(scrape(t), -1) {
		labels := map[string]bool{}
		for _, name := range label.FindAllStringSubmatch(match[2], -1) {
			labels[name[1]] = true
		}
		delete(labels, "le") // of histograms
		got[match[1]] = sorted(slices.Collect(maps.Keys(labels)))
	}
	for name, labels := range got {
		if in, ok := want[name]; !ok {
			t.Errorf("docs/metrics.md lacks %s", name)
		} else if in != labels {
			t.Errorf("%s has the labels %q, docs/metrics.md says %q", name, labels, in)
		}
	}
	for name := range want {
		if _, ok := got[name]; !ok {
			t.Errorf("docs/metrics.md has %s, the relay has not", name)
		}
	}
}

func sorted(names []string) string {
	slices.Sort(names)
	return strings.Join(names, ",")
}

// scrape runs a relay until it has relayed a row and returns its metrics.
func scrape(t *testing.T) string {
	t.Helper()
	s := tables(t)
	s.Exec(t, "insert into outbox_messages (topic, payload) values ('orders.placed', '{}')")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	command := exec.Command(binary(t), "run")
	command.Env = append(os.Environ(), "OUTBOX_DATABASE_URL="+s.URL, "OUTBOX_PUBLISH_URL=stdout:", "OUTBOX_HTTP_ADDR="+addr)
	command.Stderr = &log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := command.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := command.Wait(); err != nil {
			t.Errorf("the relay exited: %v\n%s", err, log.String())
		}
	}()
	var body string
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		if response, err := http.Get("http://" + addr + "/metrics"); err == nil {
			content, err := io.ReadAll(response.Body)
			response.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			if body = string(content); strings.Contains(body, `rows_relayed_total{destination="default"} 1`) {
				return body
			}
		}
		select {
		case <-t.Context().Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	t.Fatalf("no row was relayed:\n%s", body)
	return ""
}
