// Package replica runs the relay's binary as a process that can be killed, frozen and stopped.
package replica

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A Replica is a place in which one process after the other runs. Its exported fields are set before Start. It is
// not safe for concurrent use, but for Running and Ready.
type Replica struct {
	Name        string
	Binary      string
	Environment []string
	Log         string        // path of the file to which all its processes write
	StopTime    time.Duration // in which a process must end after SIGTERM
	MayLeave    bool          // rows unsettled at a stop, since a fault may have taken their answers
	// Ended is called when a process ends that nobody told to.
	Ended func(how string)

	address string // of its HTTP server
	mu      sync.Mutex
	process *process
}

type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when it has ended
	told   bool          // to end; guarded by the replica's mu
}

// Start starts a process, unless one runs.
func (r *Replica) Start(ctx context.Context) error {
	if r.Running() {
		return nil
	}
	// A port anew for each process: while this one is dead, another may have taken the last one.
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0") // finds a free one
	if err != nil {
		return fmt.Errorf("find a port: %w", err)
	}
	r.address = listener.Addr().String()
	_ = listener.Close()
	log, err := os.OpenFile(r.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer log.Close() // the process has its own
	cmd := exec.CommandContext(context.WithoutCancel(ctx), r.Binary, "run")
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "OUTBOX_HTTP_ADDR=" + r.address}, r.Environment...)
	cmd.Stderr = log
	// A process group of its own: Ctrl-C in the terminal is for us.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", r.Name, err)
	}
	p := &process{cmd: cmd, exited: make(chan struct{})}
	r.mu.Lock()
	r.process = p
	r.mu.Unlock()
	go func() { // Stop and Kill wait for it
		err := cmd.Wait()
		r.mu.Lock()
		told := p.told
		r.mu.Unlock()
		if !told {
			r.Ended(fmt.Sprintf("ended by itself: %v", err))
		}
		close(p.exited)
	}()
	return nil
}

// Running reports whether a process runs, frozen or not.
func (r *Replica) Running() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process == nil {
		return false
	}
	select {
	case <-r.process.exited:
		return false
	default:
		return true
	}
}

// tell returns the process that runs, after noting that it was told to end, or nil.
func (r *Replica) tell() *process {
	if !r.Running() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.process.told = true
	return r.process
}

// Kill ends the process as kill -9 does.
func (r *Replica) Kill() {
	if p := r.tell(); p != nil {
		_ = p.cmd.Process.Kill() // it may just have ended
		<-p.exited
	}
}

// unsettled is the status of a relay that had to leave rows which it will publish again.
const unsettled = 3

// Stop asks the process to end and waits for it. One that does not end in time, or not well, is reported to Ended.
func (r *Replica) Stop() {
	p := r.tell()
	if p == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may just have ended
	select {
	case <-p.exited:
		if code := p.cmd.ProcessState.ExitCode(); code != 0 && (code != unsettled || !r.MayLeave) {
			r.Ended(fmt.Sprintf("ended with status %d after SIGTERM", code))
		}
	case <-time.After(r.StopTime):
		r.Ended(fmt.Sprintf("did not end within %v after SIGTERM", r.StopTime))
		r.Kill()
	}
}

// Freeze stops the process where it is, until Thaw.
func (r *Replica) Freeze() { r.signal(syscall.SIGSTOP) }

// Thaw lets it go on.
func (r *Replica) Thaw() { r.signal(syscall.SIGCONT) }

func (r *Replica) signal(s syscall.Signal) {
	if r.Running() {
		_ = r.process.cmd.Process.Signal(s) // it may just have ended
	}
}

// Ready returns what /readyz says in full.
func (r *Replica) Ready(ctx context.Context) (ready bool, text string) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.address+"/readyz?verbose", nil)
	if err != nil {
		return false, err.Error()
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return false, err.Error()
	}
	return response.StatusCode == http.StatusOK, strings.TrimSpace(string(body))
}
