// Command release makes what release.sh cannot with a shell: the image without Docker, and a binary's bill of
// materials.
//
//	release bill --version 0.1.0 --time 2026-01-02T03:04:05Z --binary FILE --out FILE
//	release image --version 0.1.0 --commit abc --time 2026-01-02T03:04:05Z --binaries FOLDER --out FOLDER
//	release push --version 0.1.0 --out FOLDER --image REGISTRY/NAME
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// A Release is one version of the program.
type Release struct {
	Version string // without a v, as image tags and charts require
	Commit  string
	Source  string    // address of the repository, or empty
	Time    time.Time // time of the commit, and of every file in the result
	Out     string    // folder of the image
}

func run(ctx context.Context, args []string) (err error) {
	var r Release
	flags := flag.NewFlagSet("release bill|image|push", flag.ContinueOnError)
	version := flags.String("version", "", "such as 0.1.0; a v before it is dropped")
	flags.StringVar(&r.Out, "out", "", "where to write to")
	flags.StringVar(&r.Commit, "commit", "unknown", "what is built")
	flags.StringVar(&r.Source, "source", "", "address of the repository, for the image's labels")
	at := flags.String("time", time.Time{}.Format(time.RFC3339), "when that was committed: the time of all files")
	binary := flags.String("binary", "", "the binary whose modules to list")
	binaries := flags.String("binaries", "", "folder with linux-ARCHITECTURE/outbox-relay for each architecture")
	image := flags.String("image", "", "where to push the image to, without a tag")
	command := ""
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("read the flags: %w", err)
	}
	r.Version = strings.TrimPrefix(*version, "v")
	if r.Time, err = time.Parse(time.RFC3339, *at); err != nil {
		return fmt.Errorf("read --time: %w", err)
	}
	switch command {
	case "bill":
		return r.writeBill(*binary, r.Out)
	case "image":
		return r.writeImage(*binaries)
	case "push":
		return r.Push(ctx, *image)
	default:
		return fmt.Errorf("%q is none of bill, image and push", command)
	}
}
