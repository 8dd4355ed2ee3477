package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A node is a server for one test. The nodes of a cluster are in internal/services/cluster.
type node struct {
	t       testing.TB
	name    string
	dir     string // folder of the node, removed after the test
	command []string
	env     []string
	cmd     *exec.Cmd
	gone    chan struct{} // closed when the process has ended
}

// startPatience is how long a node may take to start, as in dev/services.sh.
const startPatience = 90 * time.Second

// newNode makes a server that is not started yet. Its processes end with the test, and with the process of the tests,
// however it ends.
func newNode(t testing.TB, name string) *node {
	t.Helper()
	n := &node{t: t, name: name, dir: t.TempDir()}
	t.Cleanup(func() {
		n.kill()
		if t.Failed() {
			lines := strings.Split(strings.TrimSpace(n.logged()), "\n")
			t.Logf("the end of the log of %s:\n%s", name, strings.Join(lines[max(0, len(lines)-15):], "\n"))
		}
	})
	return n
}

// write writes a file into the server's directory and returns its path.
func (n *node) write(name, content string) string {
	n.t.Helper()
	path := filepath.Join(n.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		n.t.Fatal(err)
	}
	return path
}

// start starts the process with an empty log, and does not wait.
func (n *node) start() {
	n.t.Helper()
	log, err := os.Create(filepath.Join(n.dir, "log"))
	if err != nil {
		n.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(n.command[0], n.command[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = n.dir, append(os.Environ(), n.env...), log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		n.t.Fatalf("start %s: %v", n.name, err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = cmd.Wait() // usually it was killed
	}()
	n.cmd, n.gone = cmd, gone
}

func (n *node) logged() string {
	content, _ := os.ReadFile(filepath.Join(n.dir, "log")) // before the start there is none
	return string(content)
}

// awaitLog waits until the server's log has the words.
func (n *node) awaitLog(words string) {
	n.t.Helper()
	awaitWithin(n.t, startPatience, n.name+" says "+words, func() bool {
		n.mustRun()
		return strings.Contains(n.logged(), words)
	})
}

func (n *node) mustRun() {
	n.t.Helper()
	select {
	case <-n.gone:
		n.t.Fatalf("%s has ended", n.name)
	default:
	}
}

// kill ends the server and the processes that it has started, as a power failure would.
func (n *node) kill() {
	if n.cmd == nil {
		return
	}
	_ = syscall.Kill(-n.cmd.Process.Pid, syscall.SIGKILL) // it may have ended already
	<-n.gone
}

// installed obtains a broker's software and returns the path of one of its programs.
func installed(t testing.TB, service, program string) string {
	t.Helper()
	cmd := exec.Command("dev/services.sh", "install", service)
	cmd.Dir = "../.."
	var problems bytes.Buffer
	cmd.Stderr = &problems
	path, err := cmd.Output()
	if err != nil {
		t.Fatalf("dev/services.sh install %s: %v\n%s", service, err, problems.String())
	}
	for _, dir := range filepath.SplitList(strings.TrimSpace(string(path))) {
		if found, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return found
		}
	}
	t.Fatalf("dev/services.sh install %s has not brought %s", service, program)
	return ""
}

// firstPort and givenPorts make freePorts give no port twice: nothing may listen yet on one that another test was
// given.
var (
	firstPort  = rand.Int64N(10000)
	givenPorts atomic.Int64
)

// freePorts returns ports of the loopback interface on which nothing listens. No outgoing connection takes them while a
// server that uses them is down, because Linux uses ports from 32768 on for these.
func freePorts(t testing.TB, n int) []int {
	t.Helper()
	var ports []int
	for tries := 0; len(ports) < n; tries++ {
		if tries > 1000 {
			t.Fatal("no free ports")
		}
		port := int(10000 + (firstPort+givenPorts.Add(1))%10000)
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		_ = listener.Close()
		ports = append(ports, port)
	}
	return ports
}
