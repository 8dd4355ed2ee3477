package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/operate"
	"github.com/outbox-relay/outbox-relay/publisher"
)

func (p *program) replayCommand() *cobra.Command {
	var flags changing
	cmd := &cobra.Command{
		Use:        "replay [ID...]",
		SuggestFor: []string{"resend", "republish", "redrive"},
		Short:      "Publish relayed rows again",
		Long: `Publish relayed rows again, with the same message ids: relayed_at is cleared. Discarded rows are left alone.
The rows of a key are published in their order among themselves, but after younger rows that were relayed before. Ids
may also be given as arguments.

JetStream drops a message that it has stored within the duplicate window of the stream (two minutes by default): such
a row is marked as relayed again, and nothing is stored.
` + selectionHelp + changingHelp,
		Example: `  outbox-relay replay --topic order.placed --since 2026-03-01T12:00:00Z --dry-run`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if c, err := p.load(config.NeedDatabase); err == nil && mayDeduplicate(c) {
				fmt.Fprintln(cmd.ErrOrStderr(), "note: a JetStream stream drops messages that it has stored within "+
					"its duplicate window; such rows are marked as relayed again, and not stored again")
			}
			return flags.apply(cmd, args, operate.Replay())
		},
	}
	flags.add(p, cmd, "that were relayed")
	return cmd
}

// mayDeduplicate reports whether a destination publishes to JetStream, or may do so according to the settings.
func mayDeduplicate(c *config.Config) bool {
	return slices.ContainsFunc(c.Destinations, func(d config.Destination) bool {
		return d.Broker.Scheme == "" || d.Broker.Protocol == publisher.ProtocolNATS
	})
}
