package nats_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/logtest"
)

// A process is a nats-server for a single test. It can be stopped, started again, and made to reload its configuration.
type process struct {
	dir       string
	address   string // host:port
	webSocket string // host:port of its WebSocket listener, if the settings have one
	jetStream bool   // JetStream is on, with its files in dir
	cmd       *exec.Cmd
}

// startServer starts a server with JetStream and the given additional settings. Files in dir may be named without a
// path.
func startServer(t *testing.T, dir, settings string) *process {
	t.Helper()
	return (&process{dir: dir, jetStream: true}).run(t, settings)
}

// startNode starts a server without JetStream, unless the settings turn it on.
func startNode(t *testing.T, dir, settings string) *process {
	t.Helper()
	return (&process{dir: dir}).run(t, settings)
}

func (p *process) run(t *testing.T, settings string) *process {
	t.Helper()
	p.address = "127.0.0.1:-1"
	p.configure(t, settings)
	p.start(t)
	t.Cleanup(p.stop)
	return p
}

func (p *process) configure(t *testing.T, settings string) {
	t.Helper()
	if p.jetStream {
		settings = fmt.Sprintf("jetstream { store_dir: %q }\n%s", p.dir, settings)
	}
	config := fmt.Sprintf("listen: %q\nports_file_dir: %q\n%s\n", p.address, p.dir, settings)
	write(t, p.dir, "nats.conf", []byte(config))
}

// start runs the server and waits until it listens.
func (p *process) start(t *testing.T) {
	t.Helper()
	binary, err := filepath.Abs("../../bin/nats-server")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(binary); err != nil {
		if out, err := exec.CommandContext(t.Context(), "make", "-s", "-C", "../..",
			"bin/nats-server").CombinedOutput(); err != nil {
			t.Fatalf("build nats-server: %v\n%s", err, out)
		}
	}
	p.cmd = exec.Command(binary, "-c", "nats.conf")
	p.cmd.Dir = p.dir
	var log logtest.Log
	p.cmd.Stderr = &log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ports := filepath.Join(p.dir, fmt.Sprintf("nats-server_%d.ports", p.cmd.Process.Pid))
	deadline, again := time.Now().Add(patience), time.NewTicker(5*time.Millisecond)
	defer again.Stop()
	for {
		var found struct {
			NATS      []string `json:"nats"`
			WebSocket []string `json:"websocket"`
		}
		if text, err := os.ReadFile(ports); err == nil && json.Unmarshal(text, &found) == nil && len(found.NATS) > 0 {
			_, p.address, _ = strings.Cut(found.NATS[0], "://")
			if len(found.WebSocket) > 0 {
				_, p.webSocket, _ = strings.Cut(found.WebSocket[0], "://")
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("nats-server does not start:\n%s", log.String())
		}
		<-again.C
	}
}

// stop ends the server at once, as a crash does.
func (p *process) stop() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// freeze stops the server's process for some time.
func (p *process) freeze(t *testing.T, d time.Duration) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(d, func() { _ = p.cmd.Process.Signal(syscall.SIGCONT) })
}

// reload makes the server read its configuration again.
func (p *process) reload(t *testing.T, settings string) {
	t.Helper()
	p.configure(t, settings)
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}

// write replaces a file as a whole, as Kubernetes does.
func write(t *testing.T, dir, name string, content []byte) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}
