// Package licenses holds the licences of everything that is linked into the program.
package licenses

import _ "embed"

// Text lists each licence, notice and patent grant with the modules that come with it. It is written by
// go test ./internal/licenses -update.
//
//go:embed licenses.txt
var Text string
