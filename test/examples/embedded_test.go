package examples

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/internal/services"
)

// The program of docs/embedding.md makes its table, relays a row to NATS, and stops cleanly at an interrupt.
func TestEmbeddedProgram(t *testing.T) {
	t.Parallel()
	modules := read(t, "test/examples/embedded/go.mod")
	for _, sample := range claimed(t, "TestEmbeddedProgram") {
		if !strings.Contains(modules, sample.text) {
			t.Errorf("%s:%d: test/examples/embedded/go.mod does not have this:\n%s", sample.document, sample.line, sample.text)
		}
	}
	url := services.Endpoint(t, "TEST_NATS_URL")
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateOrUpdateStream(t.Context(),
		jetstream.StreamConfig{Name: "EMBEDDED", Subjects: []string{"orders.placed"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = js.DeleteStream(context.Background(), "EMBEDDED") })

	program := filepath.Join(t.TempDir(), "shop")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir = "embedded"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s := pgtest.New(t)
	run := exec.CommandContext(t.Context(), program)
	run.Env = append(os.Environ(), "DATABASE_URL="+s.URL, "NATS_URL="+url)
	var output strings.Builder
	run.Stdout, run.Stderr = &output, &output
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	consumer, err := stream.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ours := func(m jetstream.Msg) bool { // other tests may publish to this subject, too
		id, n := m.Headers().Get("message-id"), 0
		err := s.Pool.QueryRow(t.Context(), "select count(*) from outbox_messages where id::text = $1", id).Scan(&n)
		return err == nil && n == 1
	}
	m, err := consumer.Next(jetstream.FetchMaxWait(time.Minute))
	for err == nil && !ours(m) {
		m, err = consumer.Next(jetstream.FetchMaxWait(time.Minute))
	}
	if err != nil {
		_ = run.Process.Kill()
		_ = run.Wait()
		t.Fatalf("%v; the program says:\n%s", err, output.String())
	}
	if m.Subject() != "orders.placed" || string(m.Data()) != `{"cents": 4200}` || m.Headers().Get("message-key") != "ada" {
		t.Errorf("got %s %v %s", m.Subject(), m.Headers(), m.Data())
	}
	if err := run.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := run.Wait(); err != nil {
		t.Errorf("%v; the program says:\n%s", err, output.String())
	}
	if left := pgtest.Value[int](t, s, "select count(*) from outbox_messages where relayed_at is null"); left != 0 {
		t.Errorf("rows that are not marked: %d", left)
	}
}
