package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox-relay/internal/licenses"
)

func licensesCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "licenses",
		Aliases: []string{"license", "licences"},
		Short:   "Print the licences of everything that is linked in",
		Long: `Print the licence of the program, and each licence, notice and patent grant of the modules that are linked
in.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), licenses.Text)
			return err
		},
	}
}
