//go:build frameworks

package examples

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// firstLine is the comment in which a sample names its file.
var firstLine = regexp.MustCompile(`^(?:<\?php )?(?://|#) (\S+)\n`)

// The pages of the frameworks run as they are printed, each with the framework itself: an order and its message are
// both there, and after a message that the table refuses neither is.
func TestFrameworks(t *testing.T) {
	checkout, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string][]sample{}
	for _, s := range samples(t) {
		if c := claimOf(s); s.note == "" && c != nil && strings.HasSuffix(c.test, " TestFrameworks") {
			pages[s.document] = append(pages[s.document], s)
		}
	}
	for document, page := range pages {
		name := strings.TrimSuffix(filepath.Base(document), ".md")
		t.Run(name, func(t *testing.T) {
			s := tables(t)
			s.Exec(t, "alter table outbox_messages add check (key <> 'mallory')")
			dir := t.TempDir()
			for _, block := range page {
				found := firstLine.FindStringSubmatch(block.text)
				if found == nil {
					t.Fatalf("%s:%d: the first line does not name the file", document, block.line)
				}
				file := filepath.Join(dir, found[1])
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(block.text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			script := read(t, "test/examples/frameworks/"+name+"/run.sh")
			command := exec.CommandContext(t.Context(), "bash", "-euc", script)
			command.Dir = dir
			command.Env = append(os.Environ(), "DATABASE_URL="+s.URL, "CHECKOUT="+checkout)
			var out bytes.Buffer
			command.Stdout, command.Stderr = &out, &out
			if err := command.Run(); err != nil {
				t.Fatalf("%v\n%s", err, out.String())
			}
			want := strings.Count(script, "\njava ")
			want = max(want, 1) // one page runs two frameworks
			orders := pgtest.Value[string](t, s, "select string_agg(customer, ' ') from orders")
			messages := pgtest.Value[int](t, s, `select count(*)::int from outbox_messages m join orders o on m.topic =
				'orders.placed'
				and m.key = 'ada' and m.payload = jsonb_build_object('order', o.id, 'customer', 'ada', 'cents', 4200)`)
			if orders != strings.TrimSpace(strings.Repeat("ada ", want)) || messages != want {
				t.Errorf("orders of %s, %d messages\n%s", orders, messages, out.String())
			}
		})
	}
}
