package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox-relay/internal/telemetry"
)

// Set when a release is linked: -ldflags "-X github.com/outbox-relay/outbox-relay/cli.version=1.2.3 …".
var version, commit string

// thisBuild describes this program, from the linker's flags, or otherwise from what the Go command has recorded.
func thisBuild() telemetry.Build {
	build := telemetry.Build{Version: version, Commit: commit}
	info, ok := debug.ReadBuildInfo()
	if ok && build.Version == "" && info.Main.Version != "(devel)" {
		build.Version = info.Main.Version
	}
	if ok && build.Commit == "" {
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				build.Commit = setting.Value
			}
		}
	}
	if build.Version == "" {
		build.Version = "dev"
	}
	if build.Commit == "" {
		build.Commit = "unknown"
	}
	return build
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
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), versionText())
			return err
		},
	}
}
