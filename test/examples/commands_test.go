package examples

import (
	"bytes"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

var (
	ourLine  = regexp.MustCompile(`(?m)(?:^|[\s;|&]\.?/?)outbox-relay ([a-z][^#|;&>\n]*)`)
	argument = regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`)
)

// The relay's commands in the documents exist, with these flags, also in samples that nobody runs.
func TestCommands(t *testing.T) {
	t.Parallel()
	relay := binary(t)
	tried := map[string]bool{}
	for _, s := range samples(t) {
		if s.language != "sh" && s.language != "console" {
			continue
		}
		for _, match := range ourLine.FindAllStringSubmatch(s.text, -1) {
			args := argument.FindAllString(match[1], -1)
			for i := range args {
				args[i] = strings.Trim(args[i], `'"`)
			}
			line := strings.Join(args, " ")
			if tried[line] {
				continue
			}
			tried[line] = true
			// Flags are parsed before help is printed instead of running the command.
			var out, problems bytes.Buffer
			command := exec.CommandContext(t.Context(), relay, append(args, "--help")...)
			command.Stdout, command.Stderr = &out, &problems
			if err := command.Run(); err != nil {
				t.Errorf("%s:%d: %s: %v: %s", s.document, s.line, match[0], err, problems.String())
			} else if !strings.Contains(out.String(), "outbox-relay "+args[0]) {
				t.Errorf("%s:%d: there is no command %s", s.document, s.line, args[0])
			}
		}
	}
	if len(tried) < 20 {
		t.Errorf("%d commands found, which are not all", len(tried))
	}
}
