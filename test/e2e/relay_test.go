package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// relay is a process of the real binary.
type relay struct {
	t       testing.TB
	addr    string
	cmd     *exec.Cmd
	started time.Time
	exited  chan struct{} // closed when the process is gone and its output is read
	code    int           // then

	mu  sync.Mutex
	log []string // lines of standard error
}

// settings are the relay's environment; later ones win.
type settings []string

// startRelay starts `outbox-relay run`. The process is killed when the test ends, if it still runs.
func startRelay(t testing.TB, env settings) *relay {
	t.Helper()
	return startBuild(t, binary, env)
}

// startBuild is startRelay for a binary of another version.
func startBuild(t testing.TB, program string, env settings) *relay {
	t.Helper()
	r := &relay{t: t, addr: freeAddr(t), exited: make(chan struct{}), code: -1}
	r.cmd = commandOf(program, env, "run")
	r.cmd.Env = append(r.cmd.Env, "OUTBOX_HTTP_ADDR="+r.addr)
	stderr, err := r.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.started = time.Now()
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.exited)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			r.mu.Lock()
			r.log = append(r.log, lines.Text())
			r.mu.Unlock()
		}
		_ = r.cmd.Wait() // the status says it all
		r.code = r.cmd.ProcessState.ExitCode()
	}()
	t.Cleanup(func() {
		r.kill()
		if t.Failed() {
			t.Logf("log of the relay at %s:\n%s", r.addr, r.logged())
		}
	})
	return r
}

// command makes a command of the relay with nothing but the settings in its environment.
func command(env settings, args ...string) *exec.Cmd { return commandOf(binary, env, args...) }

func commandOf(program string, env settings, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Env = slices.Concat([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, env)
	return cmd
}

// runCommand runs a command of the relay to its end.
func runCommand(t testing.TB, env settings, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	made := command(env, args...)
	cmd := exec.CommandContext(ctx, made.Path, args...)
	cmd.Env = made.Env
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

// freeAddr returns an address of the loopback interface that nobody listens on.
func freeAddr(t testing.TB) string {
	t.Helper()
	listener := listen(t)
	defer listener.Close()
	return listener.Addr().String()
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() }) // again, for most
	return listener
}

// kill ends the process as a crash would: kill -9.
func (r *relay) kill() {
	_ = r.cmd.Process.Kill() // it may be gone already
	<-r.exited
}

// stop asks the process to end, waits for it, and fails the test unless it ended well.
func (r *relay) stop() time.Duration {
	r.t.Helper()
	asked := time.Now()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		r.t.Fatalf("stop the relay: %v", err)
	}
	select {
	case <-r.exited:
	case <-time.After(patience):
		r.t.Fatalf("the relay did not stop within %v", patience)
	}
	if r.code != 0 {
		r.t.Fatalf("the relay stopped with status %d", r.code)
	}
	return time.Since(asked)
}

func (r *relay) running() bool {
	select {
	case <-r.exited:
		return false
	default:
		return true
	}
}

// logged returns the log so far.
func (r *relay) logged() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.log, "\n")
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
	for _, line := range strings.Split(r.logged(), "\n") {
		var one record
		if line == "" {
			continue
		}
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			r.t.Errorf("a line of the log is no JSON: %q", line)
			continue
		}
		if slices.Index(levels, one.Level) >= slices.Index(levels, level) {
			found = append(found, one)
		}
	}
	return found
}

// get asks the process; status 0 means that it does not answer.
func (r *relay) get(path string) (status int, body string) {
	return r.ask(http.MethodGet, path)
}

func (r *relay) ask(method, path string) (status int, body string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://"+r.addr+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, ""
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, ""
	}
	return response.StatusCode, string(content)
}

// awaitReady waits until /readyz answers 200 and returns how long that took since the start.
func (r *relay) awaitReady() time.Duration {
	r.t.Helper()
	await(r.t, "the relay is ready", func() bool {
		r.mustRun()
		status, _ := r.get("/readyz")
		return status == http.StatusOK
	})
	return time.Since(r.started)
}

// awaitNotReady waits until /readyz answers 503 with all of the words, and checks that the process lives on.
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
	if !r.running() {
		r.t.Fatalf("the relay ended with status %d", r.code)
	}
}

// owns reports whether this replica owns so many shards.
func (r *relay) owns(shards int) bool { return r.metric("shards_owned") == strconv.Itoa(shards) }

// metric returns the value of a series as /metrics prints it, "" when it is not there.
func (r *relay) metric(series string) string {
	_, body := r.get("/metrics")
	for line := range strings.Lines(body) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), "outbox_relay_"+series+" "); found {
			return value
		}
	}
	return ""
}

func containsAll(text string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}
