package doctor

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// example contains every kind of finding.
func example() Report {
	var r Report
	ok := func(check, subject, found string) finding.Finding {
		return finding.Finding{Check: check, Subject: subject, Found: found}
	}
	warning := func(check, subject, remedy, found string) finding.Finding {
		return finding.Finding{Severity: finding.Warning, Check: check, Subject: subject, Found: found, Remedy: remedy}
	}
	failure := func(check, subject, remedy, found string) finding.Finding {
		return finding.Finding{Severity: finding.Error, Check: check, Subject: subject, Found: found, Remedy: remedy}
	}
	r.add(areaDatabase, "", ok("reach", variableURL, "PostgreSQL 17.2, database shop, as role outbox_relay"),
		failure("pooler", variableDirect, "set "+variableDirect+" to the PostgreSQL server itself",
			"the connection for ownership goes through a transaction pooler"))
	r.add(areaTable, "", warning("index", "public.outbox_messages",
		`create index concurrently on "public"."outbox_messages" ("failed_at") where "failed_at" is not null;`,
		"no index of failed rows: the gauge failed_rows is left out"))
	r.add(areaReplicas, "", ok("replicas", "public.outbox_messages", "2 with OUTBOX_SHARDS=16; shards that are owned: 16"))
	r.add(areaDestination, "orders", ok("reach", "kafka-1:9092", "answers"),
		failure("topic", "orders.placed", "create it", "does not exist: its rows are held"))
	r.add(areaDestination, "audit", warning("stream", "<orders> & co", "turn no_ack off", "it sends no acknowledgements"))
	return r
}

// Texts for people and formats for scripts: go test ./doctor -update rewrites the files.
func TestReport(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]Report{"report": example(), "empty": {}} {
		var text, asJSON strings.Builder
		if err := errors.Join(r.WriteText(&text), r.WriteJSON(&asJSON)); err != nil {
			t.Fatal(err)
		}
		for suffix, got := range map[string]string{".txt": text.String(), ".json": asJSON.String()} {
			path := filepath.Join("testdata", name+suffix)
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(path); err != nil || string(want) != got {
				t.Errorf("differs from %s (go test ./doctor -update rewrites it): %v\n%s", path, err, got)
			}
		}
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	r := example()
	if e, w, fine := r.Count(finding.Error), r.Count(finding.Warning), r.Count(finding.OK); e != 2 || w != 2 || fine != 3 {
		t.Errorf("%d errors, %d warnings, %d ok", e, w, fine)
	}
}
