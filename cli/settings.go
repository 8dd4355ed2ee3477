package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox-relay/config"
)

const settingsHelp = `All settings are environment variables. An empty variable counts as unset, except where empty has a meaning below.
Each may instead be given as the path of a file that holds its value, with _FILE added to its name.
Durations are written as 500ms, 10s, 5m, 1h or 7d; sizes as bytes or with KiB, MiB, GiB. An unknown OUTBOX_ variable
is an error. Settings marked * may be given for one destination alone, as OUTBOX_DESTINATION_<NAME>_ and the rest.

`

// settingsTopic is "help settings": a help text without a command.
func settingsTopic() *cobra.Command {
	var text strings.Builder
	text.WriteString(settingsHelp)
	for _, s := range config.Settings() {
		text.WriteString("  " + s.Name)
		if s.PerDestination && !strings.Contains(s.Name, "<NAME>") {
			text.WriteString(" *")
		}
		switch {
		case s.Default != "":
			text.WriteString("  (default " + s.Default + ")")
		case s.Unset == "required":
			text.WriteString("  (required)")
		case s.Unset != "":
			text.WriteString("  (default: " + s.Unset + ")")
		}
		text.WriteString("\n" + wrap(s.Description, "      ", 110))
	}
	text.WriteString("\nThe standard OTEL_* variables are read as well; traces are exported when an OTLP endpoint is set.")
	return &cobra.Command{Use: "settings", Short: "Every setting, its default and its meaning", Long: text.String()}
}

// wrap breaks a text into indented lines of at most width characters.
func wrap(text, indent string, width int) string {
	var out strings.Builder
	line := indent
	for word := range strings.FieldsSeq(text) {
		if len(line) > len(indent) && len(line)+len(word) > width {
			out.WriteString(strings.TrimRight(line, " ") + "\n")
			line = indent
		}
		line += word + " "
	}
	out.WriteString(strings.TrimRight(line, " ") + "\n")
	return out.String()
}
