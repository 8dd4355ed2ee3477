package cli

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox-relay/config"
)

const settingsHelp = `All settings are environment variables. An empty variable counts as unset, except where empty has
a meaning below. Each may instead be given as the path of a file that holds its value, with _FILE added to its name.
Durations are written as 500ms, 10s, 5m, 1h or 7d; sizes as bytes or with KiB, MiB, GiB. An unknown OUTBOX_ variable is
an error. Settings marked * may be given for one destination alone, as OUTBOX_DESTINATION_<NAME>_ and the rest.

`

// settingsTopic is "help settings", a help text without a command. "help settings kafka" has one group of them.
func settingsTopic() *cobra.Command {
	topic := &cobra.Command{Use: "settings", Short: "Every setting, its default and its meaning", Long: settingsHelp}
	for group, text := range config.Help {
		title, _, _ := strings.Cut(text, "\n")
		topic.Long += text + "\n"
		topic.AddCommand(&cobra.Command{Use: group, Short: title, Long: settingsHelp + strings.TrimSuffix(text, "\n")})
	}
	topic.Long += "The standard OTEL_* variables are read as well; traces are exported when an OTLP endpoint is set."
	return topic
}

func (p *program) configCommand() *cobra.Command {
	return p.with(config.NeedAll, &cobra.Command{
		Use:   "config",
		Short: "Print the effective configuration, each value with its source",
		Long: `Print every setting with its effective value and its source: the default, the environment, a file, or the
variable that a destination inherits the value from. Secrets are redacted. If the configuration is invalid, config lists
every problem instead, and the exit status is 2. It needs no connection.`,
	}, func(cmd *cobra.Command, c *config.Config) error {
		all := [][]string{{"SETTING", "VALUE", "SOURCE"}}
		for _, v := range c.Values() {
			all = append(all, []string{v.Name, cmp.Or(v.Text, "-"), v.Source})
		}
		return writeColumns(cmd.OutOrStdout(), all)
	})
}
