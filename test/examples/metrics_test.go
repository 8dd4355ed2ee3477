package examples

import (
	"bytes"
	"flag"
	"fmt"
	"io"
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

var update = flag.Bool("update", false, "write the table of docs/metrics.md")

var (
	help   = regexp.MustCompile(`(?m)^# HELP outbox_relay_(\w+) (.*)$`)
	kind   = regexp.MustCompile(`(?m)^# TYPE outbox_relay_(\w+) (\w+)$`)
	inText = regexp.MustCompile(`(?m)^outbox_relay_(\w+?)(?:_bucket|_sum|_count)?(?:\{(.*)\})? \S+$`)
	label  = regexp.MustCompile(`(\w+)="`)
)

// The documented table is what a running relay says of its metrics.
func TestMetrics(t *testing.T) {
	const begin, end = "<!-- metrics:begin -->\n", "<!-- metrics:end -->"
	text := read(t, "docs/metrics.md")
	head, rest, found := strings.Cut(text, begin)
	table, tail, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("docs/metrics.md has no %q and %q", begin, end)
	}
	want := describe(scrape(t))
	if *update {
		if err := os.WriteFile("../../docs/metrics.md", []byte(head+begin+want+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if table != want {
		t.Errorf("the table of docs/metrics.md is not up to date: run this test with -update. The relay has\n%s", want)
	}
}

// describe returns the table of the metrics of a scrape.
func describe(scrape string) string {
	labels, kinds := map[string][]string{}, map[string]string{}
	for _, match := range inText.FindAllStringSubmatch(scrape, -1) {
		for _, name := range label.FindAllStringSubmatch(match[2], -1) {
			if name := name[1]; name != "le" && !slices.Contains(labels[match[1]], name) { // le is of histograms
				labels[match[1]] = append(labels[match[1]], name)
			}
		}
	}
	for _, match := range kind.FindAllStringSubmatch(scrape, -1) {
		kinds[match[1]] = match[2]
	}
	var rows []string
	for _, match := range help.FindAllStringSubmatch(scrape, -1) {
		name := match[1]
		series := name
		if of := labels[name]; len(of) > 0 {
			slices.Sort(of)
			series += "{" + strings.Join(of, ",") + "}"
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |\n", series, kinds[name],
			strings.ReplaceAll(match[2], "|", "\\|")))
	}
	slices.Sort(rows)
	return "| metric | type | meaning |\n|---|---|---|\n" + strings.Join(rows, "")
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
	command.Env = append(os.Environ(), "OUTBOX_DATABASE_URL="+s.URL, "OUTBOX_PUBLISH_URL=stdout:",
		"OUTBOX_HTTP_ADDR="+addr)
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
