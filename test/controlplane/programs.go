package controlplane

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
)

// programs are the processes of a control plane. The first one that ends by itself is recorded with the end of its log.
type programs struct {
	binaries, logs string

	running sync.WaitGroup
	mu      sync.Mutex
	procs   []*os.Process // in the order of their start
	over    bool
	failed  error
}

// start starts a program, whose output goes to a file of its name. Errors are returned by failure.
func (p *programs) start(name string, args ...string) {
	started := make(chan struct{})
	p.running.Go(func() {
		// The kernel ends the program together with the thread that started it, and therefore with the tests, however
		// they end.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		cmd, err := p.launch(name, args)
		close(started)
		if err == nil {
			err = cmd.Wait()
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.over && p.failed == nil {
			p.failed = fmt.Errorf("%s has ended: %w\n%s", name, err, p.tail(name))
		}
	})
	<-started
}

func (p *programs) launch(name string, args []string) (*exec.Cmd, error) {
	log, err := os.Create(filepath.Join(p.logs, name+".log"))
	if err != nil {
		return nil, fmt.Errorf("make the log: %w", err)
	}
	defer func() { _ = log.Close() }()                            // the program has a descriptor of its own
	cmd := exec.Command(filepath.Join(p.binaries, name), args...) //nolint:noctx // stop ends it
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: make control-plane builds it", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.procs = append(p.procs, cmd.Process)
	return cmd, nil
}

// tail returns the last lines of a program's log.
func (p *programs) tail(name string) string {
	text, _ := os.ReadFile(filepath.Join(p.logs, name+".log")) // as much as there is
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

// failure returns an error that names the program that has ended by itself, and the reason.
func (p *programs) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// stop kills the programs. Their data is not needed any more.
func (p *programs) stop() {
	p.mu.Lock()
	p.over = true
	for _, process := range p.procs {
		_ = process.Signal(syscall.SIGKILL) // or it has ended
	}
	p.mu.Unlock()
	p.running.Wait()
}
