// Command release makes the files of a release, and pushes its image and chart. Two builds from the same commit with the same
// Go, helm and modules give files that are equal byte for byte.
//
//	release build --version 0.1.0 --commit abc --time 2026-01-02T03:04:05Z --out dist
//	release push --version 0.1.0 --out dist --image REGISTRY/NAME --charts REGISTRY/FOLDER
//	release notes --version 0.1.0
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("say build, push or notes")
	}
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	checkout := flags.String("checkout", ".", "the repository")
	version := flags.String("version", "", "such as 0.1.0; a v before it is dropped")
	dist := flags.String("out", "dist", "folder of the files")
	commit := flags.String("commit", "unknown", "what is built")
	at := flags.String("time", "", "when that was committed: the time of all files")
	source := flags.String("source", "", "address of the repository, for the image's labels")
	image := flags.String("image", "", "where to push the image to, without a tag")
	charts := flags.String("charts", "", "in which folder of a registry to push the chart")
	if err := flags.Parse(args[1:]); err != nil {
		return fmt.Errorf("read the flags: %w", err)
	}
	r := Release{Version: strings.TrimPrefix(*version, "v"), Commit: *commit, Source: *source, Log: out}
	var err error
	if r.Checkout, err = filepath.Abs(*checkout); err != nil {
		return fmt.Errorf("find the repository: %w", err)
	}
	if r.Out, err = filepath.Abs(*dist); err != nil {
		return fmt.Errorf("find the folder: %w", err)
	}
	switch args[0] {
	case "build":
		if r.Time, err = time.Parse(time.RFC3339, *at); err != nil {
			return fmt.Errorf("read --time: %w", err)
		}
		return r.Build(ctx)
	case "push":
		return r.Push(ctx, *image, *charts)
	case "notes":
		return r.Notes(out)
	default:
		return fmt.Errorf("%s is none of build, push and notes", args[0])
	}
}
