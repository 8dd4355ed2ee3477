package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

const rootHelp = `outbox-relay publishes the rows that an application writes to its outbox table in PostgreSQL to Kafka,
NATS JetStream or RabbitMQ: every committed row at least once, in order per key, with retries. A row is marked as
relayed once the broker has acknowledged it durably.

It is configured by environment variables only. Two of them are required:

  OUTBOX_DATABASE_URL   postgres://user:password@host:5432/database
  OUTBOX_PUBLISH_URL    kafka://host:9092, nats://host:4222 or amqp://user:password@host:5672/vhost;
                        stdout: writes the messages as JSON lines, for trying out

"outbox-relay help settings" explains all of them, "outbox-relay help settings kafka" those for Kafka. Each may instead
name a file that contains the value: OUTBOX_DATABASE_URL_FILE.

Without a command, outbox-relay relays until SIGTERM or SIGINT; a second signal stops it at once.

Exit status: 0 done, 1 failed, 2 configuration or usage error, 3 stopped before everything was done.`

const rootExamples = `  outbox-relay schema | psql "$OUTBOX_DATABASE_URL"    # create the recommended table
  outbox-relay config                                  # effective values and their sources
  outbox-relay doctor                                  # problems and their remedies
  OUTBOX_PUBLISH_URL=stdout: outbox-relay              # show what is published (rows are marked)
  OUTBOX_PUBLISH_URL=kafka://localhost:9092 outbox-relay`

func (p *program) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:     "outbox-relay",
		Short:   "Publish outbox rows from PostgreSQL to Kafka, NATS JetStream or RabbitMQ",
		Long:    rootHelp,
		Example: rootExamples,
		// Run reports errors itself, and a usage text would hide them.
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	run := p.runCommand()
	// The library's own flag prints by a template, whose package keeps the linker from leaving out unused methods.
	printVersion := root.Flags().BoolP("version", "v", false, "version for outbox-relay")
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if *printVersion {
			_, err := io.WriteString(cmd.OutOrStdout(), versionText())
			return err
		}
		return run.RunE(cmd, args)
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(run, p.drainCommand(), p.doctorCommand(), p.statusCommand(), p.failedCommand(), p.replayCommand(),
		p.pruneCommand(), p.verifyCommand(), p.schemaCommand(), p.grantsCommand(), p.configCommand(), licensesCommand(),
		healthcheckCommand(), versionCommand(), settingsTopic())
	return root
}
