package recording

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The screen is what a terminal would show: lines that were erased are gone, and each state is a frame.
func TestRecording(t *testing.T) {
	t.Parallel()
	r := &Recording{}
	for _, text := range []string{
		"begin\n", "\n\x1b[1mTitle\x1b[0m\n 1 row & <more>\n", "\x1b[3A\x1b[J 0.1 s  event\n",
		"RIGHT\n",
	} {
		if _, err := io.WriteString(r, text); err != nil {
			t.Fatal(err)
		}
	}
	want := [][]string{
		{"begin", ""},
		{"begin", "", "Title", " 1 row & <more>", ""},
		{"begin", " 0.1 s  event", ""},
		{"begin", " 0.1 s  event", "RIGHT", ""},
	}
	if len(r.frames) != len(want) {
		t.Fatalf("%d frames", len(r.frames))
	}
	for i, f := range r.frames {
		if !slices.Equal(f.screen, want[i]) {
			t.Errorf("frame %d is %q, want %q", i, f.screen, want[i])
		}
	}
	file := filepath.Join(t.TempDir(), "demo.svg")
	if err := r.Save(file, "make demo"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	decoder := xml.NewDecoder(strings.NewReader(string(text)))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(string(text), "1 row &amp; &lt;more&gt;") || !strings.Contains(string(text), "$ make demo") {
		t.Errorf("the image lacks a text:\n%s", text)
	}
}

// What changes faster than the pace is one frame, and the last state is kept.
func TestPace(t *testing.T) {
	t.Parallel()
	r := &Recording{Pace: time.Hour}
	for _, text := range []string{"a\n", "b\n", "c\n", "d\n"} {
		if _, err := io.WriteString(r, text); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.frames) != 2 || !slices.Equal(r.frames[1].screen, []string{"a", "b", "c", "d", ""}) {
		t.Errorf("frames %v", r.frames)
	}
}
