package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	startTime = 15 * time.Second // until a relay must be ready
	stopTime  = 30 * time.Second // more than OUTBOX_SHUTDOWN_TIMEOUT
)

// A relay is one process of the real binary. Its fields are set before it is started.
type relay struct {
	name   string
	binary string
	env    []string
	log    string // path of its log

	address string // of its HTTP server
	command *exec.Cmd
	exited  chan struct{} // closed when the process has ended; err is set before
	err     error
	leaving atomic.Bool // it was told to stop
	seen    atomic.Pointer[metrics]
}

// relayEnvironment is this process's environment with the settings of a relay, and none that belong to
// another one.
func relayEnvironment(settings map[string]string) []string {
	var env []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "OUTBOX_") {
			env = append(env, variable)
		}
	}
	for name, value := range settings {
		env = append(env, name+"="+value)
	}
	return env
}

// printSchema runs `outbox-relay schema`.
func printSchema(ctx context.Context, binary string, settings map[string]string, flags ...string) (string, error) {
	command := exec.CommandContext(ctx, binary, append([]string{"schema"}, flags...)...)
	command.Env = relayEnvironment(settings)
	command.Stderr = os.Stderr
	out, err := command.Output()
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("there is no %s: run `make build`", binary)
	}
	if err != nil {
		return "", fmt.Errorf("print schema: %w", err)
	}
	return string(out), nil
}

// start runs the process. It is to be closed, if start returns no error.
func (r *relay) start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0") // finds a free port
	if err != nil {
		return fmt.Errorf("find a port: %w", err)
	}
	r.address = listener.Addr().String()
	listener.Close()
	log, err := os.OpenFile(r.log, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer log.Close()                                                            // the process has its own
	r.command = exec.CommandContext(context.WithoutCancel(ctx), r.binary, "run") // only stop and close end it
	r.command.Env = append(r.env, "OUTBOX_HTTP_ADDR="+r.address)
	r.command.Stderr = log
	// A process group of its own: Ctrl-C in the terminal is for us, and we stop the relay.
	r.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := r.command.Start(); err != nil {
		return fmt.Errorf("start %s: %w", r.name, err)
	}
	r.exited = make(chan struct{})
	go func() { // close waits for it
		defer close(r.exited)
		r.err = r.command.Wait()
	}()
	return nil
}

// ready waits until /readyz answers 200.
func (r *relay) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		status, text, err := r.ask(ctx, "/readyz?verbose")
		if status == http.StatusOK {
			return nil
		}
		select {
		case <-tick.C:
		case <-r.exited:
			return r.lost()
		case <-ctx.Done():
			if err == nil {
				err = errors.New(strings.TrimSpace(text))
			}
			return fmt.Errorf("%s is not ready: %w", r.name, err)
		}
	}
}

// watch returns nil when the process has ended as it was told, or ctx ends, and an error when the
// process ended by itself.
func (r *relay) watch(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-r.exited:
	}
	if r.leaving.Load() {
		return nil
	}
	return r.lost()
}

func (r *relay) lost() error {
	if r.err == nil {
		return fmt.Errorf("%s ended by itself", r.name)
	}
	return fmt.Errorf("%s ended: %w", r.name, r.err)
}

// stop sends SIGTERM and returns when the process has ended, which it must do with status 0. What it counts
// after that signal nobody sees.
func (r *relay) stop(ctx context.Context) error {
	r.leaving.Store(true)
	r.scrape(ctx)
	if err := r.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", r.name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	select {
	case <-ctx.Done():
		return fmt.Errorf("%s did not stop: %w", r.name, ctx.Err())
	case <-r.exited:
	}
	if r.err != nil {
		return fmt.Errorf("%s did not stop cleanly: %w", r.name, r.err)
	}
	return nil
}

// close ends the process if it still runs, gently first.
func (r *relay) close(ctx context.Context) {
	if r.stop(ctx) == nil {
		return
	}
	_ = r.command.Process.Kill() // an error says that it has ended already
	<-r.exited
}

// ask makes an HTTP request of the relay.
func (r *relay) ask(ctx context.Context, path string) (status int, text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.address+path, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}
