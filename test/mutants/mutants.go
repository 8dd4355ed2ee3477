package main

import "slices"

// A mutant breaks one rule of the relay.
type mutant struct {
	name     string
	breaks   string // what must not be possible any more
	file     string // file to change, relative to the root of the module
	old, new string // piece of the file, which occurs exactly once, and its replacement
	pkg      string // package whose tests must notice
	tests    string // pattern of these tests, as for go test -run
}

// schedules are the random schedules of the relay, and decisions those of the engine alone.
const (
	schedules = "^TestRandomSchedules$"
	decisions = "."
)

var mutants = slices.Concat(keys, engine, table)
