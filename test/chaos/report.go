package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox-relay/test/chaos/history"
)

const examples = 3 // number of violations of each check that are shown in full

// report prints the verdict of a run.
func (g *game) report(r result) {
	g.mu.Lock()
	defer g.mu.Unlock()
	fmt.Fprintf(g.out, "\nseed %d, %s: %s\n", r.seed, g.options.broker, numbers(r))
	if g.scene.Several() {
		for i := range r.run.Destinations {
			fmt.Fprintf(g.out, "  %s\n", atDestination(r.run, &r.run.Destinations[i]))
		}
	}
	found := map[history.Check][]history.Violation{}
	for _, v := range r.violations {
		found[v.Check] = append(found[v.Check], v)
	}
	for _, check := range history.Checks {
		verdict := "kept"
		if n := len(found[check]); n > 0 {
			verdict = fmt.Sprintf("BROKEN %d times%s", n, where(found[check]))
		}
		fmt.Fprintf(g.out, "  %-82s %s\n", check, verdict)
	}
	for _, check := range history.Checks {
		for i, v := range found[check] {
			if i == examples {
				fmt.Fprintf(g.out, "... and %d more\n", len(found[check])-i)
				break
			}
			fmt.Fprintf(g.out, "\nBROKEN%s: %s\n  %s\n", where(found[check][i:i+1]), check, v.Text)
			for _, line := range v.Evidence {
				fmt.Fprintf(g.out, "    %s\n", line)
			}
		}
	}
	if len(r.violations) > 0 {
		fmt.Fprintf(g.out, "\nthe relays' logs: %s\nagain: cd test/chaos && go run . %s\n", g.dir, g.command(r.seed))
	}
	fmt.Fprintln(g.out)
}

// where lists the destinations that have violations, or returns "" if there is just one destination.
func where(violations []history.Violation) string {
	var names []string
	for _, v := range violations {
		if v.Destination != "" && !slices.Contains(names, v.Destination) {
			names = append(names, v.Destination)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return " at " + strings.Join(names, ", ")
}

// atDestination summarizes what happened at one destination.
func atDestination(run *history.Run, d *history.Destination) string {
	var relayed, failed int
	for _, f := range d.Table {
		if f.Failed {
			failed++
		} else if f.Relayed {
			relayed++
		}
	}
	h := run.Of(d)
	return fmt.Sprintf("%-7s %d rows marked in its columns and %d failed, %d failures, %d deliveries, %d duplicates",
		d.Name, relayed, failed,
		len(d.Failures), len(h.Deliveries), h.Duplicates())
}

// command returns the arguments that repeat a run.
func (g *game) command(seed uint64) string {
	args := []string{"--broker", g.options.broker, "--seed", fmt.Sprint(seed), "--duration", g.duration.String()}
	if g.options.replicas > 0 {
		args = append(args, "--replicas", fmt.Sprint(g.options.replicas))
	}
	if g.scene.Several() {
		args = append(args, "--scene", g.options.scene)
	}
	if g.cluster {
		args = append(args, "--cluster")
	}
	if g.clean {
		args = append(args, "--clean")
	}
	if g.external {
		args = append(args, "--external")
	}
	return strings.Join(args, " ")
}

// numbers summarizes what happened in a run.
func numbers(r result) string {
	var committed, rolledBack, unclean int
	for _, row := range r.run.Rows {
		if row.Outcome == history.Committed {
			committed++
		} else {
			rolledBack++
		}
	}
	for _, f := range r.run.Faults {
		if f.Replicas > 0 {
			unclean++
		}
	}
	return fmt.Sprintf("%d rows committed, %d rolled back, %d faults (%d unclean), %d deliveries, %d duplicates, "+
		"longest statement %v",
		committed, rolledBack, len(r.run.Faults), unclean, len(r.run.Deliveries), r.run.Duplicates(),
		r.longest.Round(1e6))
}

// sum prints a line for each seed.
func sum(out io.Writer, o options, all []result) {
	fmt.Fprintf(out, "%s, %d seeds\n", o.broker, len(all))
	for _, r := range all {
		verdict := "kept"
		if n := len(r.violations); n > 0 {
			verdict = fmt.Sprintf("BROKEN, %d violations", n)
		}
		fmt.Fprintf(out, "  seed %-8d %-24s %s\n", r.seed, verdict, numbers(r))
	}
}
