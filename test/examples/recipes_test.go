package examples

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/outbox-relay/outbox-relay/config"
)

const recipes = "docs/recipes/"

// No recipe lacks a test, and each is linked to.
func TestRecipes(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir("../../" + recipes)
	if err != nil {
		t.Fatal(err)
	}
	source, page := read(t, "test/examples/recipes_test.go")+read(t, "test/examples/compose_test.go"),
		read(t, "docs/recipes.md")
	for _, entry := range entries {
		if !strings.Contains(source, `"`+entry.Name()+`"`) && !strings.Contains(source, recipes+entry.Name()) {
			t.Errorf("no test loads %s", entry.Name())
		}
		if !strings.Contains(page, "(recipes/"+entry.Name()+")") {
			t.Errorf("docs/recipes.md does not link to %s", entry.Name())
		}
	}
}

// Where a recipe limits the memory, GOMEMLIMIT is at most nine tenths of the limit, so that the collector works harder
// before the kernel kills.
func TestMemoryOfRecipes(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../" + recipes + "*")
	if err != nil {
		t.Fatal(err)
	}
	goLimit := regexp.MustCompile(`GOMEMLIMIT\W+(?:value\W+)?(\d+)MiB`)
	limit := regexp.MustCompile(`(?:MemoryMax=|mem_limit: |"memory": |memory: |memory = ")(\d+)`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		soft := goLimit.FindSubmatch(text)
		if soft == nil {
			continue
		}
		most, err := strconv.Atoi(string(soft[1]))
		if err != nil {
			t.Fatal(err)
		}
		hard := limit.FindAllSubmatch(text, -1)
		if len(hard) == 0 {
			t.Errorf("%s has no limit", file)
		}
		for _, match := range hard {
			if allowed, err := strconv.Atoi(string(match[1])); err != nil || most > allowed*9/10 {
				t.Errorf("%s: GOMEMLIMIT is %d MiB of %d (%v)", file, most, allowed, err)
			}
		}
	}
}

// systemd accepts the unit, where it is installed, and the relay its settings.
func TestSystemdRecipe(t *testing.T) {
	text := read(t, recipes+"outbox-relay.service")
	settings := map[string]string{}
	for _, match := range regexp.MustCompile(`(?m)^Environment=(\w+)=(.*)$`).FindAllStringSubmatch(text, -1) {
		if strings.HasPrefix(match[1], config.Prefix) {
			settings[match[1]] = match[2]
		}
	}
	load(t, settings)
	if len(settings) < 2 {
		t.Errorf("the unit has the settings %v", settings)
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd-analyze is not installed")
		return
	}
	file := filepath.Join(t.TempDir(), "outbox-relay.service")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "/usr/local/bin/outbox-relay", "/bin/true")),
		0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", file).CombinedOutput(); err != nil ||
		len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v: %s", err, out)
	}
}

// Compose's recipe is loaded by [TestComposeFiles]; here its relay's settings are.
func TestComposeRecipe(t *testing.T) {
	settings := map[string]string{}
	for name, value := range composed(t, recipes+"compose.yml", "").Services["outbox-relay"].Environment {
		if strings.HasPrefix(name, config.Prefix) {
			settings[name] = *value
		}
	}
	load(t, settings)
}

// An ecsTask has the parts of a task definition in which a mistake is likely.
type ecsTask struct {
	Family      string   `json:"family"`
	Compatible  []string `json:"requiresCompatibilities"`
	NetworkMode string   `json:"networkMode"`
	CPU         string   `json:"cpu"`
	Memory      string   `json:"memory"`
	Execution   string   `json:"executionRoleArn"`
	Role        string   `json:"taskRoleArn"`
	Containers  []struct {
		Name      string              `json:"name"`
		Image     string              `json:"image"`
		Essential bool                `json:"essential"`
		DependsOn []map[string]string `json:"dependsOn"`
		Ports     []map[string]int    `json:"portMappings"`
		Memory    int                 `json:"memory"`
		User      string              `json:"user"`
		ReadOnly  bool                `json:"readonlyRootFilesystem"`
		Stop      int                 `json:"stopTimeout"`
		Env       []struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"environment"`
		Secrets []struct {
			Name string `json:"name"`
			From string `json:"valueFrom"`
		} `json:"secrets"`
		Health *struct {
			Command                                 []string
			Interval, Timeout, Retries, StartPeriod int
		} `json:"healthCheck"`
		Log *struct {
			Driver  string            `json:"logDriver"`
			Options map[string]string `json:"options"`
		} `json:"logConfiguration"`
	} `json:"containerDefinitions"`
}

func TestECSRecipe(t *testing.T) {
	decoder := json.NewDecoder(strings.NewReader(read(t, recipes+"ecs-task-definition.json")))
	decoder.DisallowUnknownFields()
	var task ecsTask
	if err := decoder.Decode(&task); err != nil {
		t.Fatal(err)
	}
	if len(task.Containers) != 2 || task.Containers[0].DependsOn[0]["containerName"] != task.Containers[1].Name {
		t.Fatalf("the application does not depend on the relay: %+v", task.Containers)
	}
	relay, settings := task.Containers[1], map[string]string{}
	if relay.Health == nil || strings.Join(relay.Health.Command, " ") != "CMD /outbox-relay healthcheck" ||
		relay.Stop <= 25 {
		t.Errorf("the relay's health check and time to stop are %+v and %d", relay.Health, relay.Stop)
	}
	for _, env := range relay.Env {
		if strings.HasPrefix(env.Name, config.Prefix) {
			settings[env.Name] = env.Value
		}
	}
	secrets := map[string]string{
		"OUTBOX_DATABASE_URL": "postgres://db/shop",
		"OUTBOX_PUBLISH_URL":  "kafka+tls://b-1.x.c2.kafka.eu-central-1.amazonaws.com:9098",
	}
	for _, secret := range relay.Secrets {
		settings[secret.Name] = secrets[secret.Name]
	}
	load(t, settings)
}

func TestCloudRunRecipe(t *testing.T) {
	var service struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Metadata   map[string]string `json:"metadata"`
		Spec       struct {
			Template struct {
				Metadata struct {
					Annotations map[string]string `json:"annotations"`
				} `json:"metadata"`
				Spec corev1.PodSpec `json:"spec"`
			} `json:"template"`
		} `json:"spec"`
	}
	decode(t, read(t, recipes+"cloud-run.yaml"), &service, true)
	relay, settings := service.Spec.Template.Spec.Containers[1], map[string]string{}
	for _, env := range relay.Env {
		switch {
		case !strings.HasPrefix(env.Name, config.Prefix):
		case env.ValueFrom != nil:
			settings[env.Name] = map[string]string{
				"OUTBOX_DATABASE_URL": "postgres://db/shop",
				"OUTBOX_PUBLISH_URL":  "nats://n:4222",
			}[env.Name]
		default:
			settings[env.Name] = env.Value
		}
	}
	load(t, settings)
	if len(relay.Ports) > 0 || service.Spec.Template.Metadata.Annotations["run.googleapis.com/cpu-throttling"] != "false" {
		t.Error("only the application may have a port, and the relay needs the processor between requests")
	}
}

func TestFlyRecipe(t *testing.T) {
	var app struct {
		App     string                    `toml:"app"`
		Region  string                    `toml:"primary_region"`
		Signal  string                    `toml:"kill_signal"`
		Timeout int                       `toml:"kill_timeout"`
		Build   map[string]string         `toml:"build"`
		Env     map[string]string         `toml:"env"`
		Metrics map[string]any            `toml:"metrics"`
		Checks  map[string]map[string]any `toml:"checks"`
		Restart []map[string]any          `toml:"restart"`
		VM      []map[string]any          `toml:"vm"`
	}
	meta, err := toml.Decode(read(t, recipes+"fly.toml"), &app)
	if err != nil || len(meta.Undecoded()) > 0 {
		t.Fatalf("%v; unknown: %v", err, meta.Undecoded())
	}
	if app.Timeout <= 25 || app.Build["image"] == "" {
		t.Errorf("%+v", app)
	}
	settings := map[string]string{}
	for name, value := range app.Env {
		if strings.HasPrefix(name, config.Prefix) {
			settings[name] = value
		}
	}
	load(t, settings)
}

func TestJobRecipe(t *testing.T) {
	var job batchv1.Job
	decode(t, read(t, recipes+"job.yaml"), &job, true)
	loadPod(t, job.Spec.Template.Spec)
}
