package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A Node is one server of a cluster. Its methods are called by one goroutine at a time.
type Node struct {
	Name    string
	Address string // address of the server itself, bypassing the proxy
	URL     string // a publish URL with that address
	Proxy   *Proxy // nil if clients do not connect

	dir     string // a directory of its own
	command []string
	env     []string
	ready   func(context.Context) error // waits until the server serves clients
	cmd     *exec.Cmd
	gone    chan struct{} // closed when the process has ended
	frozen  bool
	opening sync.WaitGroup
}

// newNode makes a server that is not yet started. Clients reach it through a proxy if it has an address.
func newNode(dir, name, address, proxy string) (*Node, error) {
	n := &Node{Name: name, Address: address, dir: filepath.Join(dir, name)}
	if address != "" {
		n.Proxy = newProxy(proxy, address)
	}
	return n, os.MkdirAll(n.dir, 0o755)
}

// write writes a file in the server's directory and returns its path.
func (n *Node) write(name string, lines ...string) (string, error) {
	path := filepath.Join(n.dir, name)
	return path, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600)
}

// Start starts the process with a new log, and does not wait. The process ends together with this process, however this
// one ends.
func (n *Node) Start() error {
	log, err := os.Create(filepath.Join(n.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.CommandContext(context.Background(), n.command[0], n.command[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = n.dir, append(os.Environ(), n.env...), log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", n.Name, err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = cmd.Wait() // usually killed
	}()
	n.cmd, n.gone, n.frozen = cmd, gone, false
	if n.Proxy != nil {
		n.opening.Go(func() { n.open(gone) })
	}
	return nil
}

// open opens the proxy once the server listens.
func (n *Node) open(gone chan struct{}) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", n.Address)
		if err == nil {
			_ = conn.Close()
			_ = n.Proxy.open() // the port is reserved for this server
			return
		}
		select {
		case <-ticker.C:
		case <-gone:
			return
		}
	}
}

// Log returns what the server has logged since its start.
func (n *Node) Log() string {
	content, _ := os.ReadFile(filepath.Join(n.dir, "log")) // there is no log before the start
	return string(content)
}

// awaitLog waits until the server's log contains the words.
func (n *Node) awaitLog(ctx context.Context, words string) error {
	return n.await(ctx, func() bool { return strings.Contains(n.Log(), words) })
}

// await waits until a condition holds, and fails if the server ends.
func (n *Node) await(ctx context.Context, condition func() bool) error {
	err := until(ctx, n.Name+" serves clients", func() (bool, error) {
		if !n.running() {
			return false, fmt.Errorf("%s has ended", n.Name)
		}
		return condition(), nil
	})
	if err != nil {
		return fmt.Errorf("%w; its log ends with\n%s", err, lastLines(n.Log()))
	}
	return nil
}

// Ready waits until a started server serves clients.
func (n *Node) Ready(ctx context.Context) error {
	if err := n.ready(ctx); err != nil {
		return err
	}
	n.opening.Wait()
	return nil
}

// Restart starts a server that has ended, and waits until it serves clients.
func (n *Node) Restart(ctx context.Context) error {
	if err := n.Start(); err != nil {
		return err
	}
	return n.Ready(ctx)
}

func (n *Node) running() bool {
	if n.cmd == nil {
		return false
	}
	select {
	case <-n.gone:
		return false
	default:
		return true
	}
}

// Up reports whether the server runs and is not frozen.
func (n *Node) Up() bool { return n.running() && !n.frozen }

// Kill kills the server and its child processes, like a machine that loses power.
func (n *Node) Kill() {
	if n.cmd == nil {
		return
	}
	_ = syscall.Kill(-n.cmd.Process.Pid, syscall.SIGKILL) // it may be gone already
	n.ended()
}

// ended records the end of the process.
func (n *Node) ended() {
	<-n.gone
	n.opening.Wait()
	n.frozen = false
	if n.Proxy != nil {
		n.Proxy.shut()
	}
}

// Stop asks the server to end and waits for it.
func (n *Node) Stop() error {
	if err := n.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	const limit = time.Minute
	select {
	case <-n.gone:
		n.ended()
		return nil
	case <-time.After(limit):
		return fmt.Errorf("%s did not stop within %v", n.Name, limit)
	}
}

// Freeze suspends the server: its connections stay open, but send nothing until Thaw.
func (n *Node) Freeze() error {
	n.frozen = true
	return n.group(syscall.SIGSTOP)
}

// Thaw resumes a frozen server.
func (n *Node) Thaw() error {
	n.frozen = false
	return n.group(syscall.SIGCONT)
}

// Signal sends the server's process a signal.
func (n *Node) Signal(s syscall.Signal) error {
	if err := n.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("signal %s: %w", n.Name, err)
	}
	return nil
}

func (n *Node) group(s syscall.Signal) error {
	if err := syscall.Kill(-n.cmd.Process.Pid, s); err != nil {
		return fmt.Errorf("signal %s: %w", n.Name, err)
	}
	return nil
}

func (n *Node) close() {
	n.Kill()
	if n.Proxy != nil {
		n.Proxy.close()
	}
}

// freePorts returns ports of the loopback interface on which nothing listens, and which no outgoing connection takes
// while their server is down: Linux assigns ports from 32768 on to outgoing connections.
func freePorts(ctx context.Context, n int) (addresses []string, err error) {
	for tries := 0; len(addresses) < n; tries++ {
		if tries > 1000 {
			return nil, errors.New("no free ports")
		}
		address := fmt.Sprint("127.0.0.1:", 10000+rand.N(10000))
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		if err != nil {
			continue
		}
		defer listener.Close() // only after all are found, so that they differ
		addresses = append(addresses, address)
	}
	return addresses, nil
}

func port(address string) string {
	_, port, _ := net.SplitHostPort(address) // the address is well formed
	return port
}

// lastLines returns the end of a log.
func lastLines(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

// until polls a condition that has no event to wait for.
func until(ctx context.Context, what string, condition func() (bool, error)) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		if done, err := condition(); err != nil || done {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, context.Cause(ctx))
		}
	}
}
