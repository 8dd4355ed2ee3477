package e2e

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// An ownNATS is a NATS server for one test.
type ownNATS struct {
	*natsBroker
	node   *node
	stream jetstream.Stream
}

// newOwnNATS starts a server with the settings, and makes a stream for the subjects.
func newOwnNATS(t *testing.T, settings string, subjects ...string) *ownNATS {
	t.Helper()
	port := freePorts(t, 1)[0]
	n := newNode(t, "nats-server")
	n.command = []string{
		installed(t, "nats", "nats-server"), "-c",
		n.write("nats.conf", fmt.Sprintf("listen: 127.0.0.1:%d\njetstream { store_dir: %q }\n%s\n", port, n.dir, settings)),
	}
	n.start()
	n.awaitLog("Server is ready")
	b := &ownNATS{natsBroker: newNATS(t, fmt.Sprintf("nats://127.0.0.1:%d", port)), node: n}
	var err error
	if b.stream, err = b.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: subjects}); err != nil {
		t.Fatal(err)
	}
	return b
}

// doctored runs doctor and returns its status and the severities of a check.
func doctored(t *testing.T, env settings, check string) (code int, severities map[string]string) {
	t.Helper()
	code, out, problems := runCommand(t, env, "doctor", "--json")
	var report struct {
		Findings []struct{ Severity, Check, Subject string }
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v: %s%s", err, out, problems)
	}
	severities = map[string]string{}
	for _, f := range report.Findings {
		if f.Check == check {
			severities[f.Subject] = f.Severity
		}
	}
	return code, severities
}

// TestMappedSubjects: the account maps the subjects, which JetStream does not report. doctor warns, and verify says
// that it cannot compare, or compares by id if the stream is named.
func TestMappedSubjects(t *testing.T) {
	t.Parallel()
	b := newOwnNATS(t, `mappings = { "orders.*": "shard.{{partition(3,1)}}.orders.{{wildcard(1)}}" }`, "shard.>")
	outbox := newTable(t)
	outbox.insert("orders.1", 0, 40, 5)
	env := outbox.env(b.url())
	if code, found := doctored(t, env, "topic"); code != 0 || found["orders.1"] != "warning" {
		t.Errorf("doctor: status %d, topics %v", code, found)
	}
	drain(t, env)
	if rows, sum := verified(t, env, 1); len(rows) != 40 || rows[0].Problem != "not_compared" || sum.Missing != 0 {
		t.Errorf("without the stream's name: %d rows, %+v", len(rows), sum)
	}
	env = outbox.env(b.url(), "OUTBOX_NATS_STREAM=S")
	if rows, sum := verified(t, env, 0); len(rows) != 0 || sum.Rows != 40 {
		t.Errorf("with the stream's name: %+v, %+v", rows, sum)
	}
	if err := b.stream.DeleteMsg(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	if rows, sum := verified(t, env, 1); len(rows) != 1 || rows[0].Problem != "missing" || sum.Rows != 40 {
		t.Errorf("of one that was deleted: %+v, %+v", rows, sum)
	}
}

// TestTransformedSubjects: messages of a stream that stores them under other subjects are found by id, beside those of
// another stream.
func TestTransformedSubjects(t *testing.T) {
	t.Parallel()
	b := newOwnNATS(t, "", "plain.>")
	transformed, err := b.js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "T", Subjects: []string{"orders.*"},
		SubjectTransform: &jetstream.SubjectTransformConfig{Source: "orders.*", Destination: "stored.{{wildcard(1)}}"},
	})
	if err != nil {
		t.Fatal(err)
	}
	outbox := newTable(t)
	for i, topic := range []string{"orders.1", "plain.1", "orders.2"} {
		outbox.insert(topic, 20*i, 20, 5)
	}
	env := outbox.env(b.url())
	drain(t, env)
	if rows, sum := verified(t, env, 0); len(rows) != 0 || sum.Rows != 60 {
		t.Errorf("of all: %+v, %+v", rows, sum)
	}
	if err := transformed.DeleteMsg(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	if rows, sum := verified(t, env, 1); len(rows) != 1 || rows[0].Problem != "missing" || sum.Missing != 1 {
		t.Errorf("of one that was deleted: %+v, %+v", rows, sum)
	}
}

// TestVerifyLostAcknowledged: a server loses what it has acknowledged and not synced to its disk.
func TestVerifyLostAcknowledged(t *testing.T) {
	t.Parallel()
	b := newOwnNATS(t, "", "orders.>")
	outbox := newTable(t)
	outbox.insert("orders.1", 0, 100, 5)
	env := outbox.env(b.url())
	drain(t, env)
	b.node.kill()
	err := filepath.WalkDir(b.node.dir, func(path string, file fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case strings.HasSuffix(path, "index.db"):
			return os.Remove(path)
		case strings.HasSuffix(path, ".blk"):
			about, err := file.Info()
			if err != nil {
				return err
			}
			return os.Truncate(path, about.Size()/2)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	b.node.start()
	b.node.awaitLog("Server is ready")
	rows, sum := verified(t, env, 1)
	if sum.Missing < 30 || sum.Missing > 70 || sum.Gone != 0 || len(rows) != sum.Missing || rows[0].Problem != "missing" {
		t.Errorf("after half was lost: %d rows, %+v", len(rows), sum)
	}
}
