package examples

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/health"
	"github.com/outbox-relay/outbox-relay/internal/tlstest"
)

// load loads a configuration as printed, with the settings added that it omits for brevity. Files are created
// elsewhere, with a value that fits.
func load(t *testing.T, settings map[string]string) {
	t.Helper()
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, config.Prefix) {
			t.Setenv(name, "") // so that it is restored
			os.Unsetenv(name)
		}
	}
	values := map[string]string{"OUTBOX_DATABASE_URL": "postgres://postgres/shop", "OUTBOX_PUBLISH_URL": "stdout:"}
	files := maps.Clone(values)
	if settings["OUTBOX_TLS_CA_FILE"] != "" {
		authority := tlstest.NewAuthority(t)
		client := authority.Issue(t, tlstest.Leaf{Name: "relay"})
		files["OUTBOX_TLS_CA"], files["OUTBOX_TLS_CERT"], files["OUTBOX_TLS_KEY"] = string(authority.PEM),
			string(client.Cert), string(client.Key)
	}
	for name, value := range settings {
		if variable, isFile := strings.CutSuffix(name, "_FILE"); isFile {
			text := files[variable]
			if text == "" {
				text = "secret"
			}
			value = filepath.Join(t.TempDir(), "value")
			if err := os.WriteFile(value, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv(name, value)
	}
	for variable, value := range values {
		if settings[variable] == "" && settings[variable+"_FILE"] == "" {
			t.Setenv(variable, value)
		}
	}
	if _, err := config.Load(config.NeedAll); err != nil {
		t.Errorf("%v\n%v", settings, err)
	}
}

var assignment = regexp.MustCompile(`(?m)^(?:export )?(OUTBOX_\w+)=("[^"]*"|\S+)`)

// Settings in shell samples and environment files of the documents can be loaded.
func TestEnvironments(t *testing.T) {
	for _, sample := range samples(t) {
		if sample.language != "dotenv" && sample.language != "sh" {
			continue
		}
		text := sample.text
		settings := map[string]string{}
		for _, match := range assignment.FindAllStringSubmatch(text, -1) {
			if sample.language != "sh" || !strings.Contains(match[2], "$") { // else the shell fills it in, for TestShell
				settings[match[1]] = strings.Trim(match[2], `"`)
			}
		}
		if len(settings) > 0 {
			t.Run(fmt.Sprint(settings), func(t *testing.T) { load(t, settings) })
		}
	}
}

// Policies and other JSON are well formed.
func TestJSON(t *testing.T) {
	t.Parallel()
	for _, sample := range claimed(t, "TestJSON") {
		if !json.Valid([]byte(sample.text)) {
			t.Errorf("%s:%d: this is not JSON", sample.document, sample.line)
		}
	}
}

// chartValues are the settings in values of the chart.
type chartValues struct {
	Mode  string `json:"mode"`
	Image struct {
		Repository string `json:"repository"`
	} `json:"image"`
	Settings map[string]string `json:"settings"`
	Files    map[string]struct {
		Secret string `json:"secret"`
		Key    string `json:"key"`
	} `json:"files"`
}

// Settings in Kubernetes samples of the documents have the form that Kubernetes or the chart expects, and can be
// loaded.
func TestManifests(t *testing.T) {
	for _, sample := range claimed(t, "TestManifests") {
		text := sample.text
		name, _, _ := strings.Cut(text, "\n")
		t.Run(name, func(t *testing.T) {
			var kind struct {
				Kind    string          `json:"kind"`
				Sidecar *map[string]any `json:"outbox-relay"`
			}
			decode(t, text, &kind, false)
			switch {
			case kind.Kind == "Deployment":
				var d appsv1.Deployment
				decode(t, text, &d, true)
				loadPod(t, d.Spec.Template.Spec)
			case kind.Kind == "Job":
				var j batchv1.Job
				decode(t, text, &j, true)
				loadPod(t, j.Spec.Template.Spec)
			case kind.Kind == "ScaledObject": // KEDA's, which contains none of the relay's settings
			case kind.Sidecar != nil:
				var values struct {
					Sidecar chartValues `json:"outbox-relay"`
				}
				decode(t, text, &values, true)
				loadValues(t, values.Sidecar)
			case strings.HasPrefix(text, "# web.yaml\n"):
				loadWeb(t, text)
			default:
				var values chartValues
				decode(t, text, &values, true)
				loadValues(t, values)
			}
		})
	}
}

// loadWeb loads a file for OUTBOX_HTTP_CONFIG beside a certificate that it names.
func loadWeb(t *testing.T, text string) {
	t.Helper()
	const hash = "$2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi"
	folder := t.TempDir()
	file := filepath.Join(folder, "web.yaml")
	leaf := tlstest.NewAuthority(t).Issue(t, tlstest.Leaf{Name: "relay"})
	for name, content := range map[string][]byte{"tls.crt": leaf.Cert, "tls.key": leaf.Key} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "$2y$10$...", hash)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := health.CheckConfig(file); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}

func decode(t *testing.T, text string, into any, strict bool) {
	t.Helper()
	unmarshal := yaml.UnmarshalStrict
	if !strict {
		unmarshal = func(text []byte, into any, options ...yaml.JSONOpt) error {
			return yaml.Unmarshal(text, into, options...)
		}
	}
	if err := unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

func loadValues(t *testing.T, values chartValues) {
	t.Helper()
	if values.Image.Repository == "" {
		t.Error("no image: the chart requires one")
	}
	settings := map[string]string{}
	for name, value := range values.Settings {
		settings[name] = value
	}
	for name, file := range values.Files {
		if file.Secret == "" || file.Key == "" {
			t.Errorf("%s: no secret or key", name)
		}
		settings[name+"_FILE"] = file.Key
	}
	if len(settings) == 0 {
		t.Fatal("no settings")
	}
	load(t, settings)
}

// loadPod loads the environment of the relay's containers and checks that the volumes of its files exist.
func loadPod(t *testing.T, pod corev1.PodSpec) {
	t.Helper()
	volumes := map[string]bool{}
	for _, volume := range pod.Volumes {
		volumes[volume.Name] = true
	}
	loaded := false
	for _, container := range append(pod.InitContainers, pod.Containers...) {
		settings := map[string]string{}
		for _, env := range container.Env {
			if !strings.HasPrefix(env.Name, config.Prefix) {
				continue
			}
			settings[env.Name] = env.Value
			mounted := !strings.HasSuffix(env.Name, "_FILE")
			for _, mount := range container.VolumeMounts {
				mounted = mounted || volumes[mount.Name] && filepath.Dir(env.Value) == mount.MountPath
			}
			if !mounted {
				t.Errorf("%s=%s is in no volume", env.Name, env.Value)
			}
		}
		if len(settings) > 0 {
			load(t, settings)
			loaded = true
		}
	}
	if !loaded {
		t.Error("no container has settings")
	}
}
