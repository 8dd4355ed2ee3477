package examples

import (
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// composeFiles are the Compose files that users start, with their profiles.
var composeFiles = map[string][]string{
	"docker-compose.yml":       {"kafka", "nats", "rabbitmq"},
	"docs/recipes/compose.yml": {""},
}

// Compose files are valid, for each profile.
func TestComposeFiles(t *testing.T) {
	t.Parallel()
	for file, profiles := range composeFiles {
		for _, profile := range profiles {
			t.Run(file+" "+profile, func(t *testing.T) {
				t.Parallel()
				composed(t, file, profile)
			})
		}
	}
}

// composed loads a Compose file as docker compose does, and by docker compose itself where that is installed.
func composed(t *testing.T, file, profile string) *types.Project {
	t.Helper()
	path := filepath.Join("../..", file)
	project, err := loader.LoadWithContext(context.WithoutCancel(t.Context()), types.ConfigDetails{
		WorkingDir: filepath.Dir(path), ConfigFiles: []types.ConfigFile{{Filename: path}}, Environment: types.Mapping{},
	}, func(o *loader.Options) { o.SetProjectName("test", true); o.Profiles = []string{profile} })
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if exec.CommandContext(t.Context(), "docker", "compose", "version").Run() != nil {
		return project
	}
	args := []string{"compose", "--file", path, "config", "--quiet"}
	if profile != "" {
		args = slices.Insert(args, 1, "--profile", profile)
	}
	if out, err := exec.CommandContext(t.Context(), "docker", args...).CombinedOutput(); err != nil {
		t.Errorf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return project
}

// Each profile has a relay whose page can be reached, and a consumer that starts after what it reads from exists. The
// relay's settings can be loaded.
func TestComposeProfiles(t *testing.T) {
	for _, profile := range composeFiles["docker-compose.yml"] {
		t.Run(profile, func(t *testing.T) {
			project := composed(t, "docker-compose.yml", profile)
			relay, consumer := project.Services["relay-"+profile], project.Services[profile+"-consumer"]
			if len(relay.Ports) != 1 || relay.Ports[0].Published != "9630" || relay.Ports[0].HostIP != "127.0.0.1" {
				t.Errorf("the relay's page is at %v", relay.Ports)
			}
			if consumer.Image == "" || len(consumer.DependsOn) == 0 {
				t.Errorf("no consumer waits for %s", profile)
			}
			settings := map[string]string{}
			for name, value := range relay.Environment {
				settings[name] = *value
			}
			load(t, settings)
		})
	}
}

// The images have the versions with which the tests run natively.
func TestComposeVersions(t *testing.T) {
	t.Parallel()
	text := read(t, "docker-compose.yml") + read(t, "Dockerfile")
	for image, source := range map[string]struct{ file, version string }{
		"apache/kafka": {"dev/services/kafka.sh", `KAFKA_VERSION:-([0-9.]+)`},
		"nats":         {"dev/tools/nats-server/go.mod", `nats-server/v2 v(\d+\.\d+)`},
		"postgres":     {"dev/services/postgres18.sh", `POSTGRES_VERSION:-(\d+)`},
		"rabbitmq":     {"dev/versions.sh", `RabbitMQ .*and (\d+\.\d+)`},
	} {
		want := regexp.MustCompile(source.version).FindStringSubmatch(read(t, source.file))
		if want == nil {
			want = regexp.MustCompile(`(?s)` + source.version).FindStringSubmatch(read(t, source.file))
		}
		if want == nil {
			t.Fatalf("%s names no version of %s", source.file, image)
		}
		found := regexp.MustCompile(`(?m)(?:image: |FROM )`+image+`:([0-9.]+)`).FindAllStringSubmatch(text, -1)
		if len(found) == 0 {
			t.Errorf("no image %s", image)
		}
		for _, match := range found {
			if match[1] != want[1] {
				t.Errorf("the image %s has version %s, the tests %s", image, match[1], want[1])
			}
		}
	}
}
