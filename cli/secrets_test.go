package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/config"
)

const known = "Zx9KNOWNq"

// malformed are values with a known secret, as they are mistaken: URLs with odd user parts, headers in another tool's
// form, text in place of a path.
var malformed = []string{
	known, "http://u:" + known + "@127.0.0.1:1/t?x=" + known, "http://u:" + known + "@[::1", "u:" + known + "@127.0.0.1:1",
	"http://u:" + known + "/x@127.0.0.1:1", "http://u:p:" + known + "@127.0.0.1:1/%zz", "Authorization: Bearer " + known,
	"Authorization=Bearer%2t" + known, "first line\n" + known,
	"host=127.0.0.1 port=1 password=" + known + " sslmode=" + known,
}

// outputs returns everything that the program shows with the present environment.
func outputs(t *testing.T, env []string, runs bool) string {
	t.Helper()
	var all strings.Builder
	commands := []string{"status", "config", "doctor --json", "healthcheck", "replay --dry-run"}
	if status, out, errs := execute(t, env, "config"); status == 2 { // the same problems, whatever the command
		commands, runs = commands[:1], false
		all.WriteString(out + errs)
	}
	for _, args := range commands {
		_, out, errs := execute(t, env, strings.Fields(args)...)
		all.WriteString(out + errs)
	}
	if !runs {
		return all.String()
	}
	addr := freeAddr(t)
	logged, stop := running(t, append(env, "OUTBOX_HTTP_ADDR="+addr)...)
	for _, path := range []string{"/status", "/metrics", "/readyz?verbose", "/"} {
		_, body := fetch(t, "http://"+addr+path)
		all.WriteString(body)
	}
	stop()
	return all.String() + logged()
}

// No output shows a secret, also where it stands in a variable that is malformed, or in one that is meant for something
// else.
func TestMalformedSecretsAreNotShown(t *testing.T) {
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "OTEL_") || strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	base := []string{"OUTBOX_DATABASE_URL=postgres://127.0.0.1:1/shop"}
	urls := map[string]string{"KAFKA": "kafka://127.0.0.1:1", "NATS": "nats://127.0.0.1:1", "AMQP": "amqp://127.0.0.1:1"}
	check := func(runs bool, env []string, name, value string) {
		t.Run(name, func(t *testing.T) {
			if shown := outputs(t, append(env, name+"="+value), runs); strings.Contains(shown, known) {
				at := strings.Index(shown, known)
				t.Errorf("%s=%q: %s", name, value, shown[max(0, at-200):min(len(shown), at+60)])
			}
		})
	}
	for _, setting := range config.Settings() {
		if !setting.Secret {
			continue
		}
		env := append(base, "OUTBOX_PUBLISH_URL=stdout:")
		for broker, url := range urls {
			if strings.HasPrefix(setting.Name, "OUTBOX_"+broker+"_") {
				env = append(base, "OUTBOX_PUBLISH_URL="+url)
			}
		}
		if rest, is := strings.CutPrefix(setting.Name, "OUTBOX_KAFKA_OAUTH_"); is {
			env = append(env, "OUTBOX_KAFKA_SASL_MECHANISM=OAUTHBEARER")
			if rest == "EXTENSIONS" {
				env = append(env, "OUTBOX_KAFKA_OAUTH_TOKEN=t")
			}
		}
		if strings.HasSuffix(setting.Name, "_OAUTH_TOKEN_URL") {
			prefix := strings.TrimSuffix(setting.Name, "TOKEN_URL")
			env = append(env, prefix+"CLIENT_ID=c", prefix+"CLIENT_SECRET=s")
		}
		for i, value := range malformed {
			check(false, env, setting.Name, value)
			env := append(slices.Clone(env), setting.Name+"=")
			if i < 2 { // no file has such a name, whatever it looks like
				check(false, env, setting.Name+"_FILE", value)
			}
			path := filepath.Join(t.TempDir(), "value")
			if err := os.WriteFile(path, []byte(value), 0o600); err != nil {
				t.Fatal(err)
			}
			check(false, env, setting.Name+"_FILE", path)
		}
	}
	check(false, append(base, "OUTBOX_PUBLISH_URL=stdout:"), "OUTBOX_HTTP_CONFIG", "basic_auth_users:\n  u: "+known)
	env := append(base, "OUTBOX_PUBLISH_URL=stdout:", "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1",
		"OUTBOX_LOG_LEVEL=debug")
	for _, name := range []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS",
		"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_CERTIFICATE", "OTEL_EXPORTER_OTLP_CLIENT_KEY",
		"OTEL_RESOURCE_ATTRIBUTES",
		"OTEL_EXPORTER_OTLP_METRICS_HEADERS", "HTTPS_PROXY",
	} {
		for _, value := range malformed {
			check(true, env, name, value)
		}
	}
	iam := append(base, "OUTBOX_PUBLISH_URL=kafka://127.0.0.1:1", "OUTBOX_KAFKA_SASL_MECHANISM=AWS_MSK_IAM",
		"OUTBOX_KAFKA_AWS_REGION=eu-west-1",
		"AWS_ROLE_ARN=r", "AWS_ACCESS_KEY_ID=")
	for _, name := range []string{
		"AWS_SECRET_ACCESS_KEY", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN",
		"AWS_WEB_IDENTITY_TOKEN_FILE",
		"PGPASSWORD", "PGSSLMODE", "PGPORT",
	} {
		for _, value := range malformed {
			check(false, iam, name, value)
		}
	}
}
