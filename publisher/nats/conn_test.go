package nats

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

func TestConnGivesUpStalledWrites(t *testing.T) {
	for _, test := range []struct {
		name      string
		interrupt bool
		want      time.Duration
	}{
		{"by itself", false, stallTimeout},
		{"when interrupted", true, time.Second + interruptGrace},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				defer far.Close()
				c := &conn{Conn: near}
				if test.interrupt {
					time.AfterFunc(time.Second, c.interrupt)
				}
				start := time.Now()
				n, err := c.Write(make([]byte, 100))
				if n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("wrote %d bytes to nobody: %v", n, err)
				}
				if took := time.Since(start); took != test.want {
					t.Errorf("it took %v, want %v", took, test.want)
				}
				if _, err := near.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
					t.Errorf("the connection is still open: %v", err)
				}
				if failed := c.failed.Load(); failed == nil || !errors.Is(*failed, os.ErrDeadlineExceeded) {
					t.Error("the reason is lost")
				}
			})
		})
	}
}

// A large message may take longer than the timeout, as long as it makes progress.
func TestConnIsPatientWithSlowWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := &conn{Conn: near}
		read := make(chan int, 1)
		go func() {
			total, part := 0, make([]byte, chunk/2)
			for {
				time.Sleep(stallTimeout / 3)
				n, err := io.ReadFull(far, part)
				if total += n; err != nil {
					read <- total
					return
				}
			}
		}()
		start := time.Now()
		if n, err := c.Write(make([]byte, 5*chunk)); n != 5*chunk || err != nil {
			t.Errorf("wrote %d bytes: %v", n, err)
		}
		if took := time.Since(start); took <= stallTimeout {
			t.Errorf("it took %v, too short for the test to show anything", took)
		}
		_ = c.Close()
		if got := <-read; got != 5*chunk {
			t.Errorf("%d bytes arrived, want %d", got, 5*chunk)
		}
	})
}

// An interrupt while nothing is written does not affect later writes.
func TestConnForgetsInterrupts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		c := &conn{Conn: near}
		c.interrupt()
		time.Sleep(time.Second)
		go func() { _, _ = io.CopyN(io.Discard, far, 1) }()
		if _, err := c.Write([]byte("x")); err != nil {
			t.Error(err)
		}
	})
}

// A write that makes slow progress does not go on for long after an interrupt, whether the interrupt comes before the
// write or during it.
func TestConnInterruptsSlowWrites(t *testing.T) {
	for name, after := range map[string]time.Duration{"before": 0, "at once": time.Millisecond, "in the middle": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				c := &conn{Conn: near}
				done := make(chan struct{})
				defer func() { <-done }()
				go func() { // a chunk takes 160 ms
					defer close(done)
					part := make([]byte, chunk/16)
					for {
						time.Sleep(10 * time.Millisecond)
						if _, err := io.ReadFull(far, part); err != nil {
							return
						}
					}
				}()
				if after == 0 {
					c.interrupt()
					time.Sleep(time.Millisecond)
				} else {
					time.AfterFunc(after, c.interrupt)
				}
				start := time.Now()
				n, err := c.Write(make([]byte, 100*chunk))
				if took := time.Since(start); !errors.Is(err, os.ErrDeadlineExceeded) || took > after+interruptGrace {
					t.Errorf("wrote %d bytes within %v: %v", n, took, err)
				}
			})
		})
	}
}
