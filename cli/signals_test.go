package cli

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A signal that arrives twice at once, to a process and to its group, stops the relay cleanly; a later signal stops it
// at once.
func TestSecondSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals, stopped, status := make(chan os.Signal, 2), 0, -1
		var said strings.Builder
		go obey(signals, func() { stopped++ }, &said, func(s int) { status = s })
		signals <- syscall.SIGTERM
		signals <- os.Interrupt
		time.Sleep(sameSignal - time.Millisecond)
		signals <- syscall.SIGTERM
		synctest.Wait()
		if stopped != 1 || status != -1 || said.Len() > 0 {
			t.Fatalf("stopped %d times, status %d: %s", stopped, status, said.String())
		}
		time.Sleep(time.Millisecond)
		signals <- syscall.SIGTERM
		synctest.Wait()
		if status != 3 || !strings.Contains(said.String(), "second signal") {
			t.Errorf("status %d: %q", status, said.String())
		}
	})
}
