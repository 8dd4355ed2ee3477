package testkit

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A Process is a program that runs, or has run. It is safe for concurrent use.
type Process struct {
	Started time.Time

	cmd    *exec.Cmd
	log    *lockedBuffer // nil when the log goes to a file
	exited chan struct{}
	err    error // set before exited is closed
}

// Start starts a command. Its output is appended to a file, or kept in memory when logFile is "". The caller must end
// it with Stop or Kill, unless it ends by itself. A terminal's Ctrl-C does not reach it.
func Start(cmd *exec.Cmd, logFile string) (*Process, error) {
	p := &Process{Started: time.Now(), cmd: cmd, exited: make(chan struct{})}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if logFile == "" {
		p.log = &lockedBuffer{}
		cmd.Stdout, cmd.Stderr = p.log, p.log
	} else {
		file, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return nil, fmt.Errorf("open log: %w", err)
		}
		defer file.Close() // the process has a descriptor of its own
		cmd.Stdout, cmd.Stderr = file, file
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	go func() {
		defer close(p.exited)
		p.err = cmd.Wait()
	}()
	return p, nil
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited returns a channel that is closed when the process has ended and its log is complete.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Running reports whether the process runs, frozen or not.
func (p *Process) Running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Status returns the exit status, or -1 while the process runs and after a signal has ended it.
func (p *Process) Status() int {
	if p.Running() {
		return -1
	}
	return p.cmd.ProcessState.ExitCode()
}

// Used returns the processor time and the largest resident size, in bytes, of a process that has ended. It waits for
// the end.
func (p *Process) Used() (time.Duration, int64) {
	<-p.exited
	state, memory := p.cmd.ProcessState, int64(0)
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		memory = usage.Maxrss << 10
	}
	return state.UserTime() + state.SystemTime(), memory
}

// Err returns how the process ended: nil for status 0.
func (p *Process) Err() error {
	<-p.exited
	return p.err
}

// Signal sends a signal, if the process still runs.
func (p *Process) Signal(s os.Signal) {
	_ = p.cmd.Process.Signal(s) // the process may have ended
}

// Freeze stops the process where it is, until Thaw.
func (p *Process) Freeze() { p.Signal(syscall.SIGSTOP) }

// Thaw resumes a frozen process.
func (p *Process) Thaw() { p.Signal(syscall.SIGCONT) }

// Kill ends the process as kill -9 does, and waits for its end.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.exited
}

// Stop asks the process to end and waits for its end. If ctx ends first, the error says that the process has not ended.
func (p *Process) Stop(ctx context.Context) error {
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the process did not end after SIGTERM: %w", ctx.Err())
	}
}

// Log returns the lines that the process has logged so far, or "" when they go to a file.
func (p *Process) Log() string {
	if p.log == nil {
		return ""
	}
	running := p.Running()
	text := p.log.String()
	if running { // the last line may be incomplete
		text = text[:strings.LastIndexByte(text, '\n')+1]
	}
	return strings.TrimSuffix(text, "\n")
}

// A lockedBuffer is written by the process and read by others at the same time.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
