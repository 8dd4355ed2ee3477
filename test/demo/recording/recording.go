// Package recording draws what a terminal has shown as an animated SVG.
package recording

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"
)

// A Recording is a terminal that remembers its screen. It understands what the demo writes: text, bold text, and moving
// up and erasing to the end of the screen. It is safe for concurrent use.
type Recording struct {
	// Pace is the shortest time between two frames; what changes within it is one frame. A run faster than that is not
	// lost: the last state is always kept.
	Pace time.Duration

	mu     sync.Mutex
	began  time.Time
	screen []string // lines; the cursor is in the last one
	frames []frame
}

// A frame is the screen from a time on, counted from the first write.
type frame struct {
	at     time.Duration
	screen []string
}

var sequence = regexp.MustCompile(`\x1b\[(\d*)([AJm])`)

// Write shows text. Each call is one state of the screen.
func (r *Recording) Write(text []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.began.IsZero() {
		r.began, r.screen = time.Now(), []string{""}
	}
	rest := string(text)
	for {
		at := sequence.FindStringSubmatchIndex(rest)
		if at == nil {
			r.put(rest)
			break
		}
		r.put(rest[:at[0]])
		if rest[at[4]:at[5]] == "A" {
			var up int
			_, _ = fmt.Sscan(rest[at[2]:at[3]], &up)
			r.screen = append(r.screen[:max(0, len(r.screen)-1-up)], "") // what is below is erased next
		}
		rest = rest[at[1]:]
	}
	r.keep(time.Since(r.began))
	return len(text), nil
}

func (r *Recording) put(text string) {
	lines := strings.Split(text, "\n")
	r.screen[len(r.screen)-1] += lines[0]
	r.screen = append(r.screen, lines[1:]...)
}

// keep makes the screen a frame, in place of the last one if that is shorter than the pace.
func (r *Recording) keep(at time.Duration) {
	f := frame{at: at, screen: append([]string(nil), r.screen...)}
	if last := len(r.frames) - 1; last > 0 && at-r.frames[last].at < r.Pace {
		f.at = r.frames[last].at
		r.frames[last] = f
		return
	}
	r.frames = append(r.frames, f)
}

// Save draws the recording into a file.
func (r *Recording) Save(path, command string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := os.WriteFile(path, []byte(r.svg(command)), 0o644); err != nil {
		return fmt.Errorf("write the recording: %w", err)
	}
	return nil
}
