//go:build release

package main

import (
	"archive/tar"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/rhysd/actionlint"
)

const version = "0.0.1-rehearsal"

// elsewhere are the steps of the release workflow that need GitHub.
var elsewhere = []string{"log in", "publish the files"}

// The steps of the release workflow make equal files in two copies of the repository in different folders. The pushed
// image and chart can be pulled and run.
func TestRelease(t *testing.T) {
	served := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer served.Close()
	environment := map[string]string{
		"REGISTRY":                strings.TrimPrefix(served.URL, "http://"),
		"GITHUB_REPOSITORY_OWNER": "Somebody", "GITHUB_REPOSITORY": "Somebody/outbox-relay",
		"GITHUB_REF_NAME": "v" + version, "GITHUB_SERVER_URL": "https://git.example.com",
	}
	first, second := copyOf(t), copyOf(t)
	steps(t, first, environment)
	shell(t, second, environment, "make release")

	one, two := read(t, first, "dist/SHA256SUMS"), read(t, second, "dist/SHA256SUMS")
	if one != two || len(strings.Split(one, "\n")) < 6 {
		t.Errorf("the files of two releases differ:\n%s\n%s", one, two)
	}
	shell(t, filepath.Join(first, "dist"), nil, "sha256sum --check --strict SHA256SUMS")
	for _, architecture := range architectures {
		for _, system := range []string{"linux", "darwin"} {
			name := filepath.Join(first, "dist", "outbox-relay_"+version+"_"+system+"_"+architecture)
			folder := t.TempDir()
			shell(t, folder, nil, "tar --extract --file "+name+".tar.gz")
			checkBill(t, filepath.Join(folder, "outbox-relay"), name+".cdx.json")
		}
		folder := t.TempDir()
		name := filepath.Join(first, "dist", "outbox-relay_"+version+"_linux_"+architecture)
		shell(t, folder, nil, "tar --extract --file "+name+".tar.gz")
		checkImage(t, environment["IMAGE"]+":"+version, architecture, read(t, first, "dist/digests"),
			read(t, folder, "outbox-relay"))
		if architecture == runtime.GOARCH {
			if said := shell(t, folder, nil, "./outbox-relay version"); !strings.HasPrefix(said, "outbox-relay "+version+"\n") {
				t.Errorf("the program says %q", said)
			}
		}
	}
	for _, helm := range []string{"helm", "helm3"} {
		folder, chart := t.TempDir(), "outbox-relay-"+version+".tgz"
		binary, err := filepath.Abs("../../bin/" + helm)
		if err != nil {
			t.Fatal(err)
		}
		shell(t, folder, nil, binary+" pull --plain-http oci://"+environment["CHARTS"]+"/outbox-relay --version "+version)
		if read(t, folder, chart) != read(t, first, "dist/"+chart) {
			t.Errorf("%s pulls another chart than was pushed", helm)
		}
		rendered := shell(t, folder, nil, binary+" template orders "+chart+" --kube-version 1.34.0 --set image.repository="+
			environment["IMAGE"]+
			",settings.OUTBOX_DATABASE_URL=postgres://db,settings.OUTBOX_PUBLISH_URL=nats://nats")
		if !strings.Contains(rendered, `image: "`+environment["IMAGE"]+":"+version+`"`) {
			t.Errorf("the chart does not name the released image:\n%s", rendered)
		}
	}
}

// steps runs the steps of the workflow's job, each with the environment that the previous ones have set.
func steps(t *testing.T, folder string, environment map[string]string) {
	t.Helper()
	text, err := os.ReadFile(workflows + "release.yml")
	if err != nil {
		t.Fatal(err)
	}
	workflow, problems := actionlint.Parse(text)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	skipped := map[string]bool{}
	for _, name := range elsewhere {
		skipped[name] = true
	}
	environment["GITHUB_ENV"], environment["GITHUB_OUTPUT"] = filepath.Join(t.TempDir(), "env"),
		filepath.Join(t.TempDir(), "output")
	var ran []string
	for _, step := range workflow.Jobs["release"].Steps {
		run, ok := step.Exec.(*actionlint.ExecRun)
		if !ok || skipped[step.Name.Value] {
			continue
		}
		shell(t, folder, environment, run.Run.Value)
		ran = append(ran, step.Name.Value)
		added, err := os.ReadFile(environment["GITHUB_ENV"])
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(added)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			environment[name] = value
		}
	}
	if len(ran) < 3 || !strings.Contains(read(t, filepath.Dir(environment["GITHUB_OUTPUT"]), "output"), "image=sha256:") {
		t.Errorf("the workflow ran %v and put out no digest", ran)
	}
}

// copyOf copies the repository in its present state to a folder, and commits it there at a fixed time.
func copyOf(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "checkout")
	const at = "2026-01-02T03:04:05Z"
	shell(t, "../..", map[string]string{"TO": folder, "GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at}, `
		mkdir "$TO"
		git ls-files -z --cached --others --exclude-standard |
			while IFS= read -r -d "" name; do if [ -e "$name" ]; then printf '%s\0' "$name"; fi; done |
			xargs -0 cp --parents --target-directory "$TO"
		mkdir "$TO/bin"
		cp bin/helm bin/crane "$TO/bin/"
		cd "$TO"
		git init --quiet
		git add .
		git -c user.name=tests -c user.email=tests@example.com commit --quiet --message copy`)
	return folder
}

// checkImage pulls the image for an architecture and compares its program.
func checkImage(t *testing.T, tag, architecture, digests, program string) {
	t.Helper()
	reference, err := name.ParseReference(tag)
	if err != nil {
		t.Fatal(err)
	}
	image, err := remote.Image(reference, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: architecture}))
	if err != nil {
		t.Fatal(err)
	}
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(digests, "image-"+architecture+"="+digest.String()+"\n") {
		t.Errorf("%s is pulled for %s, which is not among\n%s", digest, architecture, digests)
	}
	extracted := mutate.Extract(image)
	defer func() { _ = extracted.Close() }()
	for reader := tar.NewReader(extracted); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			t.Fatal("the image holds no program")
		} else if err != nil {
			t.Fatal(err)
		}
		if header.Name == "outbox-relay" {
			body, err := io.ReadAll(reader)
			if err != nil || string(body) != program {
				t.Errorf("the image's program is not that of the archive: %v", err)
			}
			return
		}
	}
}
