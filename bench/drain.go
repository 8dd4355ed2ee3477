package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"syscall"
	"time"
)

// drain is one measured run of a program over a full table.
type drain struct {
	elapsed  time.Duration // from the start of the process until no row was pending
	ready    time.Duration // until /readyz said so; 0 for a program without it
	itself   time.Duration // processor time of the program
	database time.Duration // and of the servers, 0 when they cannot be seen
	broker   time.Duration
	log      int64 // bytes of PostgreSQL's write-ahead log
	memory   int64 // peak resident bytes of the program
	stages   string
}

// program is what is measured.
type program struct {
	name    string
	command func(topic, httpAddr string) *exec.Cmd
	serves  bool // answers /readyz
}

// run seeds the table, lets the program drain it into a new topic and checks that each row has arrived
// once.
func (b *bench) run(ctx context.Context, p program) (d drain, err error) {
	topic := fmt.Sprint("bench-", time.Now().UnixNano())
	if err := b.broker.create(ctx, topic); err != nil {
		return d, fmt.Errorf("create %s: %w", topic, err)
	}
	defer func() {
		if failed := b.broker.remove(ctx, topic); failed != nil {
			err = errors.Join(err, fmt.Errorf("remove %s: %w", topic, failed))
		}
	}()
	if err := b.outbox.seed(ctx, topic, b.rows, b.keys); err != nil {
		return d, err
	}
	if d, err = b.measure(ctx, p, topic); err != nil {
		return d, fmt.Errorf("%s: %w", p.name, err)
	}
	marked, err := b.outbox.marked(ctx)
	if err != nil {
		return d, err
	}
	arrived := 0
	limited, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	err = until(limited, 100*time.Millisecond, func() (done bool, err error) {
		arrived, err = b.broker.count(ctx, topic)
		return arrived >= b.rows, err
	})
	if err != nil || marked != b.rows || arrived != b.rows {
		return d, fmt.Errorf("%s: of %d rows %d are marked and %d messages arrived: %w", p.name, b.rows, marked, arrived, err)
	}
	return d, nil
}

func (b *bench) measure(ctx context.Context, p program, topic string) (d drain, err error) {
	addr, err := freeAddr(ctx)
	if err != nil {
		return d, err
	}
	cmd := p.command(topic, addr)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	log, err := b.outbox.log(ctx)
	if err != nil {
		return d, err
	}
	database, broker := used(b.databasePID), used(b.brokerPID)
	started := time.Now()
	if err := cmd.Start(); err != nil {
		return d, err
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	fail := func(err error) (drain, error) {
		_ = cmd.Process.Kill() // it may be gone
		if err == nil {
			err = errors.New("ended early")
		}
		return d, fmt.Errorf("%w; it said:\n%s", err, output.String())
	}
	if p.serves {
		limited, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		err := until(limited, 2*time.Millisecond, func() (bool, error) { return isReady(ctx, addr), nil })
		if err != nil {
			return fail(fmt.Errorf("not ready: %w", err))
		}
		d.ready = time.Since(started)
	}
	var asked time.Time
	err = until(ctx, 20*time.Millisecond, func() (bool, error) {
		asked = time.Now() // the answer is about this moment
		return b.outbox.empty(ctx)
	})
	if err != nil {
		return fail(err)
	}
	d.elapsed = asked.Sub(started)
	d.database, d.broker = used(b.databasePID)-database, used(b.brokerPID)-broker
	end, err := b.outbox.log(ctx)
	if err != nil {
		return fail(err)
	}
	d.log = end - log
	if p.serves {
		d.itself = processorTime(cmd.Process.Pid)
		d.stages = stages(ctx, addr, d.elapsed)
		if d.memory, err = peakMemory(cmd.Process.Pid); err != nil {
			return fail(err)
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			return fail(err)
		}
	}
	if err := <-exited; err != nil {
		return fail(err)
	}
	if !p.serves {
		d.itself = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			d.memory = usage.Maxrss << 10
		}
	}
	return d, nil
}

func used(pid int) time.Duration {
	if pid == 0 {
		return 0
	}
	return processorTime(pid)
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
