package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/test/demo/ledger"
	"github.com/outbox-relay/outbox-relay/test/demo/recording"
)

// A view shows the changing state and prints events: in a terminal the state is a block that is redrawn below the
// events, elsewhere it is one line a second. It is safe for concurrent use.
type view struct {
	out      io.Writer
	terminal bool
	title    string
	began    time.Time
	whole    time.Duration // time during which orders are taken

	mu    sync.Mutex
	drawn int // number of lines of the block on the screen
}

// A scene is the state that is shown at one moment.
type scene struct {
	ledger.Counts
	relayed int            // rows marked in the table
	latency ledger.Latency // latency of the last seconds
	relays  []actor
}

type actor struct {
	name, doing string
	metrics     // values last seen
}

func newView(out io.Writer, title string, whole time.Duration) *view {
	v := &view{out: out, title: title, whole: whole, began: time.Now()}
	switch out := out.(type) {
	case *recording.Recording:
		v.terminal = true
	case *os.File:
		info, err := out.Stat()
		v.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	}
	return v
}

// interval is the time between two scenes.
func (v *view) interval() time.Duration {
	if v.terminal {
		return 250 * time.Millisecond
	}
	return time.Second
}

// event prints an event.
func (v *view) event(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	fmt.Fprintf(v.out, "%s%5.1f s  %s\n", v.erase(), time.Since(v.began).Seconds(), fmt.Sprintf(format, args...))
}

// say prints a line without a time.
func (v *view) say(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	fmt.Fprintf(v.out, "%s%s\n", v.erase(), fmt.Sprintf(format, args...))
}

// show draws a scene.
func (v *view) show(s scene) {
	v.mu.Lock()
	defer v.mu.Unlock()
	at := time.Since(v.began)
	var oldest time.Duration
	for _, a := range s.relays {
		oldest = max(oldest, a.oldest)
	}
	if !v.terminal {
		fmt.Fprintf(v.out, "%5.1f s  committed %d  rolled back %d  relayed %d  arrived %d  p50 %s  p99 %s  oldest "+
			"pending %s\n", at.Seconds(),
			s.Committed, s.RolledBack, s.relayed, s.Arrived, short(s.latency.P50), short(s.latency.P99), short(oldest))
		return
	}
	const width = 30
	done := min(width, int(width*at/v.whole))
	lines := []string{ // no line is longer than a narrow terminal, where it would wrap and break the erasing
		"",
		fmt.Sprintf("\x1b[1m%s\x1b[0m  %s%s", v.title, strings.Repeat("█", done), strings.Repeat("░", width-done)),
		"",
		fmt.Sprintf("  application %8d rows committed, %d rolled back", s.Committed, s.RolledBack),
		fmt.Sprintf("  relayed     %8d rows   oldest pending %s", s.relayed, short(oldest)),
		fmt.Sprintf("  arrived     %8d rows   p50 %s, p99 %s after COMMIT", s.Arrived, short(s.latency.P50),
			short(s.latency.P99)),
		"",
	}
	for _, a := range s.relays {
		lines = append(lines, fmt.Sprintf("  %s     %8d rows   %s", a.name, a.relayed, a.doing))
	}
	fmt.Fprint(v.out, v.erase()+strings.Join(lines, "\n")+"\n")
	v.drawn = len(lines)
}

// draw shows the state as the given lines, or in a short form where the output is not a terminal.
func (v *view) draw(short string, lines []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.terminal {
		fmt.Fprintf(v.out, "%5.1f s%s\n", time.Since(v.began).Seconds(), short)
		return
	}
	lines = append([]string{"", "\x1b[1m" + v.title + "\x1b[0m", ""}, lines...)
	fmt.Fprint(v.out, v.erase()+strings.Join(lines, "\n")+"\n")
	v.drawn = len(lines)
}

// erase returns the control sequence that removes the block from the screen.
func (v *view) erase() string {
	if v.drawn == 0 {
		return ""
	}
	up := v.drawn
	v.drawn = 0
	return fmt.Sprintf("\x1b[%dA\x1b[J", up)
}

// short prints a duration in milliseconds.
func short(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}
