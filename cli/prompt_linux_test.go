package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// terminal opens a terminal: input is written at one end, and the program reads at the other.
func terminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = person.Close() })
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Close() })
	return person, program
}

// asked is an output that reports when a question appears.
type asked struct {
	mu   sync.Mutex
	text strings.Builder
	at   chan struct{}
}

func (a *asked) Write(b []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.text.Write(b)
	if strings.Contains(string(b), "[y/N]") {
		close(a.at)
	}
	return len(b), nil
}

func (a *asked) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.text.String()
}

// TestPrompts checks that the program asks at a terminal before it changes more than one row, and accepts only yes.
func TestPrompts(t *testing.T) {
	s, env := failedRows(t)
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		t.Setenv(name, value)
	}
	failed := func() int64 {
		return pgtest.Value[int64](t, s, "select count(*) from outbox_messages where failed_at is not null")
	}
	const endOfInput = "\x04"
	for _, c := range []struct {
		what, args, question, typed string
		status                      int
		remain                      int64
	}{
		{"no", "failed retry", "retry 60 rows? [y/N] ", "n\n", 1, 60},
		{"nothing", "failed retry", "retry 60 rows? [y/N] ", "\n", 1, 60},
		{"the end of the input", "failed retry", "retry 60 rows? [y/N] ", endOfInput, 1, 60},
		{"something else", "failed discard", "discard 60 rows? [y/N] ", "yesterday\n", 1, 60},
		{"an interrupt", "failed discard", "discard 60 rows? [y/N] ", "", 1, 60},
		{"yes", "failed retry --topic topic1", "retry 20 rows? [y/N] ", "y\n", 0, 40},
		{"YES", "failed discard --topic topic2", "discard 20 rows? [y/N] ", " YES \n", 0, 20},
		{"no question with --yes", "failed retry --yes", "", "", 0, 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			person, shell := terminal(t)
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			errs := &asked{at: make(chan struct{})}
			done := make(chan int, 1)
			go func() {
				done <- (&program{}).execute(ctx, strings.Fields(c.args), shell, &strings.Builder{}, errs)
			}()
			if c.question != "" {
				select {
				case <-errs.at:
				case status := <-done:
					t.Fatalf("it did not ask: status %d: %s", status, errs)
				case <-time.After(30 * time.Second):
					t.Fatalf("it does not ask: %s", errs)
				}
				if got := failed(); got < c.remain {
					t.Fatalf("%d failed rows are left before an answer", got)
				}
				if c.typed == "" {
					interrupt()
				} else if _, err := person.WriteString(c.typed); err != nil {
					t.Fatal(err)
				}
			}
			var status int
			select {
			case status = <-done:
			case <-time.After(30 * time.Second):
				t.Fatalf("no answer is taken: %s", errs)
			}
			if status != c.status || !strings.HasPrefix(errs.String(), c.question) || c.status != 0 &&
				!strings.Contains(errs.String(), "nothing was changed") {
				t.Errorf("status %d: %s", status, errs)
			}
			if got := failed(); got != c.remain {
				t.Errorf("%d failed rows are left, not %d", got, c.remain)
			}
		})
	}
}
