package cli

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// start runs the program with an unreachable database, and returns once it logs that it starts.
func start(t *testing.T, binary string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(binary)
	cmd.Env = []string{
		"OUTBOX_DATABASE_URL=postgres://nobody@127.0.0.1:1/none", "OUTBOX_PUBLISH_URL=stdout:",
		"OUTBOX_HTTP_ADDR=127.0.0.1:0",
	}
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(log)
	if !lines.Scan() || !strings.Contains(lines.Text(), "starting") {
		t.Fatalf("first line: %s", lines.Text())
	}
	go func() {
		for lines.Scan() { // so that the relay never blocks on its log
		}
	}()
	return cmd
}

// wait returns the exit status, or fails the test after a time limit.
func wait(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	killed := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	defer killed.Stop()
	_ = cmd.Wait() // the exit status shows the error
	return cmd.ProcessState.ExitCode()
}

// The relay starts without its database, and after a stop signal ends at once with status 0.
func TestSignalStopsCleanly(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "outbox-relay")
	if out, err := exec.Command("go", "build", "-o", binary, "..").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, signal := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		cmd := start(t, binary)
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if status := wait(t, cmd); status != 0 {
			t.Errorf("%v: status %d", signal, status)
		}
	}
}
