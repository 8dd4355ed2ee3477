package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/test/testkit"
)

// relay is a process of the real binary.
type relay struct {
	*testkit.Relay
	t testing.TB
}

// settings are the relay's environment. Later settings take precedence.
type settings []string

// startRelay starts `outbox-relay run`. The process is killed when the test ends, if it still runs.
func startRelay(t testing.TB, env settings) *relay {
	t.Helper()
	return startBuild(t, binary, env)
}

// startBuild starts a relay like startRelay, from a binary of another version.
func startBuild(t testing.TB, program string, env settings) *relay {
	t.Helper()
	started, err := testkit.StartRelay(t.Context(), program, env, "")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Relay: started, t: t}
	t.Cleanup(func() {
		r.Kill()
		if t.Failed() {
			t.Logf("log of the relay at %s:\n%s", r.Address, r.Log())
		}
	})
	return r
}

// runCommand runs a command of the relay to its end.
func runCommand(t testing.TB, env settings, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := testkit.Command(ctx, binary, env, args...)
	var out, problems strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &problems
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatalf("%v: %v", args, err)
	}
	if ctx.Err() != nil {
		t.Fatalf("%v did not end within %v:\n%s%s", args, patience, out.String(), problems.String())
	}
	return cmd.ProcessState.ExitCode(), out.String(), problems.String()
}

// freeAddr returns an address of the loopback interface on which nothing listens; see freePorts.
func freeAddr(t testing.TB) string {
	t.Helper()
	return fmt.Sprint("127.0.0.1:", freePorts(t, 1)[0])
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() }) // usually closed already
	return listener
}

// stop asks the process to end, waits for its end, and fails the test unless it ended with status 0.
func (r *relay) stop() time.Duration {
	r.t.Helper()
	asked := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.Stop(ctx); err != nil {
		r.t.Fatal(err)
	}
	if r.Status() != 0 {
		r.t.Fatalf("the relay stopped with status %d", r.Status())
	}
	return time.Since(asked)
}

// record is a line of the log.
type record struct {
	Level, Msg, Error string
}

// records returns the lines of the log with at least this level: INFO, WARN or ERROR.
func (r *relay) records(level string) []record {
	r.t.Helper()
	levels := []string{"DEBUG", "INFO", "WARN", "ERROR"}
	var found []record
	for _, line := range strings.Split(r.Log(), "\n") {
		var one record
		if line == "" {
			continue
		}
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			r.t.Errorf("a line of the log is not JSON: %q", line)
			continue
		}
		if slices.Index(levels, one.Level) >= slices.Index(levels, level) {
			found = append(found, one)
		}
	}
	return found
}

// get makes a request to the process; status 0 means that it does not answer.
func (r *relay) get(path string) (status int, body string) {
	return r.ask(http.MethodGet, path)
}

func (r *relay) ask(method, path string) (status int, body string) {
	status, body, err := r.Ask(context.Background(), method, path)
	if err != nil {
		return 0, ""
	}
	return status, body
}

// awaitReady waits until /readyz answers 200 and returns the time since the start.
func (r *relay) awaitReady() time.Duration {
	r.t.Helper()
	await(r.t, "the relay is ready", func() bool {
		r.mustRun()
		status, _ := r.get("/readyz")
		return status == http.StatusOK
	})
	return time.Since(r.Started)
}

// awaitNotReady waits until /readyz answers 503 with all of the words, and checks that the process keeps running.
func (r *relay) awaitNotReady(words ...string) {
	r.t.Helper()
	var status int
	var body string
	defer func() {
		if r.t.Failed() {
			r.t.Logf("last /readyz: %d %s", status, body)
		}
	}()
	await(r.t, "/readyz says "+strings.Join(words, ", "), func() bool {
		r.mustRun()
		status, body = r.get("/readyz?verbose")
		return status == http.StatusServiceUnavailable && containsAll(body, words)
	})
	if status, _ := r.get("/livez"); status != http.StatusOK {
		r.t.Errorf("/livez answers %d while the relay is just not ready", status)
	}
}

func (r *relay) mustRun() {
	r.t.Helper()
	if !r.Running() {
		r.t.Fatalf("the relay ended with status %d", r.Status())
	}
}

// owns reports whether this replica owns the given number of shards.
func (r *relay) owns(shards int) bool { return r.metric("shards_owned") == strconv.Itoa(shards) }

// metric returns the value of a series as /metrics prints it, or "" when it does not exist.
func (r *relay) metric(series string) string {
	_, body := r.get("/metrics")
	for line := range strings.Lines(body) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), "outbox_relay_"+series+" "); found {
			return value
		}
	}
	return ""
}

// refusals returns the number of messages that were handed to a publisher and not accepted.
func (r *relay) refusals() int {
	_, body := r.get("/metrics")
	sum := 0
	for line := range strings.Lines(body) {
		if series, value, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(series,
			"outbox_relay_publish_errors_total{") {
			n, _ := strconv.Atoi(value)
			sum += n
		}
	}
	return sum
}

func containsAll(text string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}
