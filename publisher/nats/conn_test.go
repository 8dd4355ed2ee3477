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
		{"when told to", true, time.Second + interruptGrace},
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

// A large message may take longer than the timeout, as long as it gets on.
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
			t.Errorf("it took %v, too short for the test to tell anything", took)
		}
		_ = c.Close()
		if got := <-read; got != 5*chunk {
			t.Errorf("%d bytes arrived, want %d", got, 5*chunk)
		}
	})
}

// An interrupt while nothing is written does no harm to what is written later.
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
