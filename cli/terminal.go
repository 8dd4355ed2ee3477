package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// heightOf returns the number of lines of a terminal, a usual one if the terminal does not say it.
func heightOf(stream any) int {
	file, _ := stream.(*os.File) // the descriptor of no file is invalid
	if _, height, err := term.GetSize(int(file.Fd())); err == nil && height > 1 {
		return height
	}
	return 40
}

// progressBar shows the number of rows that are done on a terminal. On other outputs it shows nothing.
type progressBar struct {
	out   io.Writer
	on    bool
	total int64
}

func (b *progressBar) show(done int64) {
	if b.on {
		fmt.Fprintf(b.out, "\r%d of %s", done, rows(b.total))
	}
}

// clear erases the bar, so that something else can be written in its place.
func (b *progressBar) clear() {
	if b.on {
		fmt.Fprint(b.out, "\r\x1b[K")
	}
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
