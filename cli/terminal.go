package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// heightOf returns the number of lines of a terminal.
func heightOf(stream any) int {
	const usual = 40
	if file, ok := stream.(*os.File); ok {
		if _, height, err := term.GetSize(int(file.Fd())); err == nil && height > 0 {
			return height
		}
	}
	return usual
}

// progressBar shows the number of rows that are done on a terminal. On other outputs it shows nothing.
type progressBar struct {
	out   io.Writer
	on    bool
	total int64
	shown time.Time
	text  string
}

// show shows the number, at most a few times a second.
func (b *progressBar) show(done int64) {
	const often = 100 * time.Millisecond
	if !b.on || time.Since(b.shown) < often && done != b.total {
		return
	}
	b.shown, b.text = time.Now(), fmt.Sprintf("%d of %s", done, rows(b.total))
	fmt.Fprint(b.out, "\r"+b.text)
}

// clear erases the bar, so that something else can be written in its place.
func (b *progressBar) clear() {
	fmt.Fprint(b.out, strings.Repeat("\b \b", len(b.text)))
	b.text = ""
}

// ask asks the user a question, and reports whether the answer is yes. The end of ctx counts as no.
func ask(ctx context.Context, in io.Reader, out io.Writer, question string) bool {
	fmt.Fprint(out, question+" [y/N] ")
	answers := make(chan string, 1)
	go func() { // may outlive the command: a read from a terminal cannot be interrupted
		answer, _ := bufio.NewReader(in).ReadString('\n') // a failed read counts as no
		answers <- strings.ToLower(strings.TrimSpace(answer))
	}()
	select {
	case answer := <-answers:
		return answer == "y" || answer == "yes"
	case <-ctx.Done():
		fmt.Fprintln(out)
		return false
	}
}
