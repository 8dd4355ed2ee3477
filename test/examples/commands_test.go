package examples

import (
	"bytes"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

var (
	shell    = regexp.MustCompile("(?s)```sh\n(.*?)\n *```")
	ourLine  = regexp.MustCompile(`(?m)(?:^|\s\.?/)outbox-relay ([^#|\n]+)`)
	argument = regexp.MustCompile(`'[^']*'|\S+`)
)

// The commands that the documents for operators contain exist, with these flags.
func TestCommands(t *testing.T) {
	t.Parallel()
	relay := binary(t)
	for _, document := range []string{"docs/alerts.md", "docs/deploying.md"} {
		found := 0
		for _, block := range shell.FindAllStringSubmatch(read(t, document), -1) {
			for _, match := range ourLine.FindAllStringSubmatch(block[1], -1) {
				found++
				args := argument.FindAllString(match[1], -1)
				for i := range args {
					args[i] = strings.Trim(args[i], "'")
				}
				// Flags are parsed before help is printed instead of running the command.
				var out, problems bytes.Buffer
				command := exec.CommandContext(t.Context(), relay, append(args, "--help")...)
				command.Stdout, command.Stderr = &out, &problems
				if err := command.Run(); err != nil {
					t.Errorf("%s: %s: %v: %s", document, match[0], err, problems.String())
				} else if !strings.Contains(out.String(), "outbox-relay "+args[0]) {
					t.Errorf("%s: there is no command %s", document, args[0])
				}
			}
		}
		if document == "docs/alerts.md" && found < 8 {
			t.Errorf("%s: %d commands found, which are not all", document, found)
		}
	}
}
