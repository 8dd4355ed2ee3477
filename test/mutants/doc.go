/*
Command mutants breaks the relay on purpose, one rule at a time, and runs the tests that must notice. A test that cannot
fail proves nothing. The command shows that the tests of the guarantees can fail, and after how many random schedules.

Each mutant replaces a piece of one file. The piece must occur there exactly once, so that a mutant never silently does
nothing after the code has changed; a test of this package checks this each time. The tree itself is not touched: the
go command gets the changed file with -overlay. The same tests run first on the tree as it is, and must pass.

	make mutants                                  all of them
	go run ./test/mutants reconciliation trust    those whose names contain one of these words; some need the TEST_ variables
*/
package main
