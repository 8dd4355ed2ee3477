package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// program is a running process: the relay or the yardstick.
type program struct {
	cmd     *exec.Cmd
	addr    string // of the relay's HTTP server
	started time.Time
	ready   time.Duration // until /readyz said so
	output  bytes.Buffer  // whole once it has exited
	exited  chan struct{}
	err     error // then
}

// patience bounds every wait for something that should soon be so.
const patience = 30 * time.Second

// startRelay starts the relay with its defaults but for the settings given, and waits until it is ready.
func (l *lab) startRelay(ctx context.Context, database, broker string, settings ...string) (*program, error) {
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, l.relay, "run")
	cmd.Env = append(withoutSettings(os.Environ()), "OUTBOX_DATABASE_URL="+database, "OUTBOX_PUBLISH_URL="+broker, "OUTBOX_HTTP_ADDR="+addr)
	cmd.Env = append(cmd.Env, settings...)
	p, err := start(cmd)
	if err != nil {
		return nil, err
	}
	p.addr = addr
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = until(limited, 2*time.Millisecond, func() (bool, error) {
		select {
		case <-p.exited:
			return false, errors.New("the relay ended")
		default:
			return isReady(ctx, addr), nil
		}
	})
	if err != nil {
		return nil, p.fail(fmt.Errorf("wait for the relay: %w", err))
	}
	p.ready = time.Since(p.started)
	return p, nil
}

func start(cmd *exec.Cmd) (*program, error) {
	p := &program{cmd: cmd, started: time.Now(), exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.exited)
		p.err = cmd.Wait()
	}()
	return p, nil
}

// stop asks the program to end and waits for it.
func (p *program) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may be gone
	return p.wait()
}

// wait waits for a program that ends by itself.
func (p *program) wait() error {
	<-p.exited
	if p.err != nil {
		return p.fail(p.err)
	}
	return nil
}

// kill ends the program as a crash would. It may be gone already.
func (p *program) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// fail ends the program and adds its last words to an error.
func (p *program) fail(err error) error {
	p.kill()
	lines := strings.Split(strings.TrimSpace(p.output.String()), "\n")
	return fmt.Errorf("%w; it said:\n%s", err, strings.Join(lines[max(0, len(lines)-10):], "\n"))
}

func isReady(ctx context.Context, addr string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/readyz", nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// freeAddr returns an address of the loopback interface that nobody listens on.
func freeAddr(ctx context.Context) (string, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}
