package cli

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// stopping returns the signals that stop the relay. The hang-up of a closing terminal is one of them, unless the relay
// was started with nohup.
func stopping() []os.Signal {
	all := []os.Signal{syscall.SIGTERM, os.Interrupt}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}

// sameSignal is how long further signals count as the first one: a supervisor that signals a process and its group
// sends the signal twice.
const sameSignal = time.Second

// obey calls stop at the first signal. A later signal does not wait for the clean stop: obey reports that and exits. As
// the first process of a container the relay must exit by itself: the kernel would not end it by a signal that it does
// not handle.
func obey(signals <-chan os.Signal, stop func(), stderr io.Writer, exit func(status int)) {
	<-signals
	stop()
	first := time.Now()
	for s := range signals {
		if time.Since(first) < sameSignal {
			continue
		}
		fmt.Fprintf(stderr, "outbox-relay: stopped at once by a second signal (%v): rows that were not settled will "+
			"be published again\n", s)
		exit(exitUnfinished)
		return
	}
}
