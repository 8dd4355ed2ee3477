package cli

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox-relay/config"
)

func (p *program) configCommand() *cobra.Command {
	return &cobra.Command{
		Use:        "config",
		SuggestFor: []string{"env", "show"},
		Short:      "Print the effective configuration, each value with its source",
		Long: `Print every setting with its effective value and its source: the default, the environment, a file, or the
variable that a destination inherits the value from. Secrets are redacted. If the configuration is invalid, config lists
every problem instead, and the exit status is 2. It needs no connection.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := p.load(config.NeedAll)
			if err != nil {
				return err
			}
			out := columns(cmd.OutOrStdout())
			fmt.Fprintln(out, "SETTING\tVALUE\tSOURCE")
			for _, v := range c.Values() {
				fmt.Fprintf(out, "%s\t%s\t%s\n", v.Name, cmp.Or(v.Text, "-"), v.Source)
			}
			return out.Flush()
		},
	}
}
