package cli

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"
)

func (p *program) configCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "config",
		Short: "Print the effective configuration, each value with its source",
		Long: `Print every setting with the value in effect and where it came from: a default, the environment, a file, or the
variable that a destination inherits it from. Secrets are redacted. If the configuration is wrong, every problem is
listed instead, and the exit status is 2. It connects to nothing.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := p.load()
			if err != nil {
				return err
			}
			out := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(out, "SETTING\tVALUE\tSOURCE")
			for _, v := range c.Values() {
				text := v.Text
				switch {
				case text == "":
					text = "-"
				case strings.ContainsFunc(text, unicode.IsControl):
					text = strconv.Quote(text) // it would break the table
				}
				fmt.Fprintf(out, "%s\t%s\t%s\n", v.Name, text, v.Source)
			}
			return out.Flush()
		},
	}
}
