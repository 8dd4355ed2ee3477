// Package cli is the command line: the commands, and what they share. Those that change rows are in changes.go.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/errtext"
)

// Exit statuses of the program, besides 0 for success.
const (
	exitFailed     = 1
	exitUsage      = 2 // configuration or usage error
	exitUnfinished = 3 // stopped before everything was done
)

// An exitError makes the program end with a status other than 1.
type exitError struct {
	Status int
	Err    error
}

func (e *exitError) Error() string { return e.Err.Error() }
func (e *exitError) Unwrap() error { return e.Err }

// usageError marks a mistake in the command line or the configuration.
func usageError(err error) error { return &exitError{Status: exitUsage, Err: err} }

// unfinishedError marks a command that stopped before everything was done.
func unfinishedError(err error) error { return &exitError{Status: exitUnfinished, Err: err} }

// execute executes the command that the arguments name and returns the exit status. It returns soon after ctx has
// ended; how soon depends on the command.
func (p *program) execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := p.rootCommand()
	started := false
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	text := err.Error()
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		text = errtext.Line(err)
	}
	if _, final := errors.AsType[*exitError](err); !final && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		fmt.Fprintln(stderr, "outbox-relay: stopped before all was done")
		return exitUnfinished
	}
	fmt.Fprintf(stderr, "outbox-relay: %s\n", text)
	if exit, ok := errors.AsType[*exitError](err); ok {
		return exit.Status
	}
	// An error before a command has started is about its flags or arguments.
	if _, wrong := errors.AsType[*config.Error](err); wrong || !started {
		return exitUsage
	}
	return exitFailed
}
