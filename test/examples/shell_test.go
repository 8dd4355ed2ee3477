package examples

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/internal/services"
	"github.com/outbox-relay/outbox-relay/sql"
)

// quickstart is the prefix of the pages that are one session, with a broker that they stop.
const quickstart = "docs/quickstart-"

// The commands of the documents run as printed and succeed. They print what the document says that they print. A
// quickstart is one session from its first command to its last.
func TestShell(t *testing.T) {
	t.Parallel()
	relay := binary(t)
	var all []sample // each shell sample, followed by what it prints
	for _, s := range samples(t) {
		if c := claimOf(s); c != nil && c.test == "TestShell" && s.note == "" {
			all = append(all, s)
		}
	}
	for start := 0; start < len(all); {
		end := start + 1
		for end < len(all) && all[end].document == all[start].document &&
			(all[end].language == "console" || strings.HasPrefix(all[start].document, quickstart)) {
			end++
		}
		part := all[start:end]
		start = end
		if strings.HasPrefix(part[0].document, quickstart) {
			continue // [TestQuickstarts]
		}
		t.Run(part[0].document, func(t *testing.T) {
			t.Parallel()
			session(t, relay, part)
		})
	}
}

// The quickstarts run from the first command to the last, one after the other, with brokers that nobody else uses.
func TestQuickstarts(t *testing.T) {
	t.Parallel()
	relay := binary(t)
	dir, err := filepath.Abs("../../.services/quickstart")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	set := &services.Set{Checkout: "../..", Dir: dir, Offset: services.FreeOffset(t)}
	wipe := func() {
		if _, err := set.Run(t.Context(), "wipe", "kafka", "nats", "rabbitmq"); err != nil {
			t.Error(err)
		}
	}
	wipe() // what an interrupted test has left
	pages := map[string][]sample{}
	for _, s := range samples(t) {
		if strings.HasPrefix(s.document, quickstart) && s.note == "" {
			pages[s.document] = append(pages[s.document], s)
		}
	}
	if len(pages) != 3 {
		t.Errorf("%d quickstarts, not one for each broker", len(pages))
	}
	for document, page := range pages {
		t.Run(document, func(t *testing.T) {
			session(t, relay, page, "SERVICES_DIR="+dir, fmt.Sprint("SERVICES_PORT_OFFSET=", set.Offset))
		})
	}
	wipe()
}

// session runs the samples of one page in one shell, in the checkout, beside a database of its own.
func session(t *testing.T, relay string, page []sample, env ...string) {
	t.Helper()
	s := pgtest.New(t)
	var script strings.Builder
	script.WriteString("set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n")
	made := false
	for _, block := range page {
		made = made || strings.Contains(block.text, "outbox-relay schema")
		if block.language == "sh" {
			script.WriteString(block.text)
		}
		script.WriteString("\n")
	}
	if !made {
		s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
	}
	for _, pair := range os.Environ() {
		ours := strings.HasPrefix(pair, "TEST_") || strings.HasPrefix(pair, "OUTBOX_") || strings.HasPrefix(pair, "SERVICES_")
		if !ours && !strings.HasPrefix(pair, "PATH=") {
			env = append(env, pair)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	url := psqlURL(s)
	env = append(env, "PATH="+filepath.Dir(relay)+":"+os.Getenv("PATH"), "TEST_DATABASE_URL="+url,
		"OUTBOX_DATABASE_URL="+url,
		"OUTBOX_PUBLISH_URL=stdout:", "OUTBOX_HTTP_ADDR="+address, "TMPDIR="+t.TempDir())
	command := exec.CommandContext(t.Context(), "bash", "-c", script.String())
	command.Dir, command.Env = "../..", env
	command.WaitDelay = 10 * time.Second // for programs that it may have left in the background
	var out, problems bytes.Buffer
	command.Stdout, command.Stderr = &out, &problems
	if err := command.Run(); err != nil {
		t.Fatalf("%s:%d: %v\n%s\n%s\nafter\n%s", page[0].document, page[0].line, err, script.String(), problems.String(),
			out.String())
	}
	for _, block := range page {
		if block.language != "console" {
			continue
		}
		for line := range strings.Lines(block.text) {
			if !printed(line).MatchString(plain(out.String())) {
				t.Errorf("%s:%d: nothing printed %s\nbut\n%s\n%s", block.document, block.line, line, out.String(),
					problems.String())
			}
		}
	}
}

// A table in the layout of Debezium's outbox event router is relayed with the settings as printed.
func TestDebeziumLayout(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, "create table outbox (id uuid primary key, aggregatetype text not null, aggregateid text not null, type "+
		"text, payload jsonb)")
	s.Exec(t, `insert into outbox values (gen_random_uuid(), 'order', 'ada', 'placed', '{"cents": 4200}')`)
	_, settings, _ := strings.Cut(read(t, "docs/wire-formats.md"), "```sh\nexport OUTBOX_PROFILE=debezium\n")
	settings, _, found := strings.Cut(settings, "```")
	if !found {
		t.Fatal("docs/wire-formats.md has no settings for Debezium's layout")
	}
	command := exec.CommandContext(t.Context(), "bash", "-euc",
		"export OUTBOX_PROFILE=debezium\n"+settings+"exec \"$0\" drain", binary(t))
	command.Env = append(os.Environ(), "OUTBOX_DATABASE_URL="+psqlURL(s), "OUTBOX_PUBLISH_URL=stdout:")
	var problems bytes.Buffer
	command.Stderr = &problems
	out, err := command.Output()
	if err != nil || !strings.Contains(string(out), `"topic":"outbox.event.order"`) ||
		!strings.Contains(string(out), "placed") {
		t.Errorf("%v: %s\n%s", err, out, problems.String())
	}
}

// psqlURL is the URL of a schema in the form that psql understands too.
func psqlURL(s *pgtest.Schema) string {
	return strings.Replace(s.URL, "search_path=", "options=-csearch_path%3D", 1)
}

var (
	uuid = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	date = regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?`)
	gaps = regexp.MustCompile(`[ \t]+`)
)

// plain replaces what is different in each run.
func plain(text string) string {
	return gaps.ReplaceAllString(date.ReplaceAllString(uuid.ReplaceAllString(text, "ID"), "TIME"), " ")
}

// printed matches a line of a document: … stands for anything.
func printed(line string) *regexp.Regexp {
	parts := strings.Split(strings.TrimSpace(plain(line)), "…")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile(strings.Join(parts, ".*"))
}

// A command is found whole by the test of its flags, and not what looks like one.
func TestPrinted(t *testing.T) {
	t.Parallel()
	const real = `{"id":"58003216-e6cc-4362-96b0-8d9258c45046","inserted":"2026-11-21T15:53:11.319508Z","n":1}`
	for line, want := range map[string]bool{
		`{"id":"00003216-e6cc-4362-96b0-8d9258c45046","inserted":"2027-01-01T00:00:00Z","n":1}`: true,
		`…"n":1}`: true, `…"n":2}`: false,
	} {
		if printed(line).MatchString(plain(real)) != want {
			t.Errorf("%s: want %v", line, want)
		}
	}
	if slices.ContainsFunc([]string{"a.b"}, func(s string) bool { return printed(s).MatchString("axb") }) {
		t.Error("a point matches any character")
	}
}
