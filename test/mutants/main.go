package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// limit is how long the tests of one mutant may take.
const limit = "3m"

// runs is how many random schedules a mutant would have to survive. The packages' own tests run fewer.
const runs = "1000"

// run tests the tree as it is and then each chosen mutant, and prints a line for each as it goes.
func run(ctx context.Context, words []string, out io.Writer) error {
	root, err := module(ctx)
	if err != nil {
		return err
	}
	chosen := choose(words)
	if len(chosen) == 0 {
		return fmt.Errorf("no mutant is named like %q", words)
	}
	fmt.Fprintf(out, "control: the same tests without any mutant\n")
	for _, c := range controls(chosen) {
		if v := test(ctx, root, "", c[0], c[1]); !v.passed {
			return fmt.Errorf("the tree as it is does not pass %s of %s:\n%s", c[1], c[0], v.output)
		}
	}
	width := 0
	for _, m := range chosen {
		width = max(width, len(m.name))
	}
	fmt.Fprintf(out, "%-*s  caught after  by\n", width, "mutant")
	var survived []string
	for _, m := range chosen {
		v, err := m.test(ctx, root)
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case !v.built:
			return fmt.Errorf("mutant %q does not build:\n%s", m.name, v.output)
		case v.passed:
			survived = append(survived, m.name)
			v.by = "NOT CAUGHT"
		}
		fmt.Fprintf(out, "%-*s  %-12s  %s\n", width, m.name, v.after, v.by)
	}
	if len(survived) > 0 {
		return fmt.Errorf("not caught: %s", strings.Join(survived, ", "))
	}
	fmt.Fprintf(out, "all %d mutants were caught\n", len(chosen))
	return nil
}

// choose returns the mutants whose names contain one of the words, or all mutants without words.
func choose(words []string) []mutant {
	return slices.DeleteFunc(slices.Clone(mutants), func(m mutant) bool {
		return len(words) > 0 && !slices.ContainsFunc(words, func(word string) bool { return strings.Contains(m.name, word) })
	})
}

// controls returns the packages and tests of the mutants, each once.
func controls(chosen []mutant) [][2]string {
	var all [][2]string
	for _, m := range chosen {
		if c := [2]string{m.pkg, m.tests}; !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	return all
}

// test runs the tests that must notice the mutant.
func (m mutant) test(ctx context.Context, root string) (v verdict, err error) {
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return v, fmt.Errorf("make directory: %w", err)
	}
	defer func() {
		if failed := os.RemoveAll(dir); err == nil {
			err = failed
		}
	}()
	overlay, err := m.overlay(root, dir)
	if err != nil {
		return v, err
	}
	return test(ctx, root, overlay, m.pkg, m.tests), nil
}

// test runs tests of a package. They stop at the first that fails.
func test(ctx context.Context, root, overlay, pkg, tests string) verdict {
	args := []string{"test", "-count=1", "-failfast", "-vet=off", "-timeout", limit, "-run", tests}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "SIMULATION_RUNS="+runs)
	started := time.Now()
	output, err := cmd.CombinedOutput()
	return judge(string(output), err == nil, time.Since(started))
}

// module returns the root of the module to which this program belongs, as seen from the working directory.
func module(ctx context.Context) (string, error) {
	output, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(output))), nil
}
