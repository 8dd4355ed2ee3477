// Package testkit is the code that the harnesses share: the relay's binary as a process, its metrics, and a reader and
// writer for each kind of broker. It is not a test framework: every function returns errors.
package testkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

// A Relay is a process of the relay's binary.
type Relay struct {
	*Process
	Address string // address of its HTTP server
}

// Command makes a command of the relay whose environment contains only the settings, NAME=value. Later settings take
// precedence.
func Command(ctx context.Context, binary string, settings []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, settings...)
	return cmd
}

// StartRelay starts `outbox-relay run`, with an HTTP server on a free port, as [Start] does. The end of ctx does not
// end the process.
func StartRelay(ctx context.Context, binary string, settings []string, logFile string) (*Relay, error) {
	address, err := FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	settings = append(settings[:len(settings):len(settings)], "OUTBOX_HTTP_ADDR="+address)
	process, err := Start(Command(context.WithoutCancel(ctx), binary, settings, "run"), logFile)
	if err != nil {
		return nil, err
	}
	return &Relay{Process: process, Address: address}, nil
}

// FreeAddress returns an address of the loopback interface on which nothing listens. No outgoing connection takes its
// port before it is used: Linux assigns ports from 32768 on to these.
func FreeAddress(ctx context.Context) (string, error) {
	for range 1000 {
		address := fmt.Sprint("127.0.0.1:", 10000+rand.N(10000))
		if listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address); err == nil {
			return address, listener.Close()
		}
	}
	return "", errors.New("no free port")
}

// Ask makes an HTTP request to the process and returns the answer. The request may take five seconds.
func (r *Relay) Ask(ctx context.Context, method, path string) (status int, body string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://"+r.Address+path, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return response.StatusCode, string(content), err
}

// Ready returns whether /readyz answers 200, and its full text.
func (r *Relay) Ready(ctx context.Context) (ready bool, text string) {
	status, text, err := r.Ask(ctx, http.MethodGet, "/readyz?verbose")
	if err != nil {
		return false, err.Error()
	}
	return status == http.StatusOK, strings.TrimSpace(text)
}

// AwaitReady waits until the process is ready, and returns how long that took since its start. Its error contains the
// last text of /readyz.
func (r *Relay) AwaitReady(ctx context.Context) (time.Duration, error) {
	said := ""
	err := Until(ctx, 2*time.Millisecond, func() (ready bool, err error) {
		if !r.Running() {
			return false, fmt.Errorf("it ended with status %d", r.Status())
		}
		ready, said = r.Ready(ctx)
		return ready, nil
	})
	if err != nil {
		return 0, fmt.Errorf("the relay is not ready: %w: %s", err, said)
	}
	return time.Since(r.Started), nil
}

// Until polls a condition that has no event to wait for, until it holds, fails, or ctx ends.
func Until(ctx context.Context, every time.Duration, condition func() (bool, error)) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if done, err := condition(); err != nil || done {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
