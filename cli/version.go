package cli

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox-relay/internal/licenses"
	"github.com/outbox-relay/outbox-relay/internal/telemetry"
)

// Set when a release is linked: -ldflags "-X github.com/outbox-relay/outbox-relay/cli.version=1.2.3 …".
var version, commit string

// thisBuild describes this program, from the linker's flags, or otherwise from what the Go command has recorded.
func thisBuild() telemetry.Build {
	number, revision := "", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		number = strings.TrimPrefix(info.Main.Version, "(devel)")
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				revision = setting.Value
			}
		}
	}
	return telemetry.Build{Version: cmp.Or(version, number, "dev"), Commit: cmp.Or(commit, revision, "unknown")}
}

// versionText is what the command version and the flag --version print.
func versionText() string {
	build := thisBuild()
	return fmt.Sprintf("outbox-relay %s\ncommit %s\n%s\n", build.Version, build.Commit, runtime.Version())
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print version, commit and Go version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), versionText())
			return err
		},
	}
}

func licensesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "licenses",
		Short: "Print the licences of everything that is linked in",
		Long: `Print the licence of the program, and each licence, notice and patent grant of the modules that are
linked in.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), licenses.Text)
			return err
		},
	}
}
