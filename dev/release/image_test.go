package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// The files of an image in its folder, and the architectures for which there are images.
const (
	imageFolder = "image"
	digests     = "digests"
)

var architectures = []string{"amd64", "arm64"}

// makeImage makes the image of a version with placeholders for its binaries, and returns its folder. A change of the
// environment is name=value.
func makeImage(t *testing.T, programs string, mode os.FileMode, changes ...string) string {
	t.Helper()
	binaries, out := t.TempDir(), t.TempDir()
	for _, architecture := range architectures {
		binary := filepath.Join(binaries, "linux-"+architecture, "outbox-relay")
		if err := errors.Join(os.MkdirAll(filepath.Dir(binary), 0o755),
			os.WriteFile(binary, []byte(programs+architecture), mode)); err != nil {
			t.Fatal(err)
		}
	}
	environment := map[string]string{"VERSION": "1.2.3", "COMMIT": "abc", "AT": "2026-01-02T03:04:05+00:00"}
	for _, change := range changes {
		name, value, _ := strings.Cut(change, "=")
		environment[name] = value
	}
	shell(t, ".", environment, "./image.sh "+binaries+" "+out)
	return out
}

// The image depends only on its contents: neither on times and modes of files, nor on folders, nor on the clock.
func TestImageIsReproducible(t *testing.T) {
	t.Parallel()
	first := read(t, makeImage(t, "program for ", 0o600), digests)
	if second := read(t, makeImage(t, "program for ", 0o755), digests); first != second {
		t.Errorf("built twice:\n%s\n%s", first, second)
	}
	for _, change := range []string{"VERSION=1.2.4", "AT=2026-01-02T03:04:06Z", "SOURCE=https://git.example"} {
		if read(t, makeImage(t, "program for ", 0o600, change), digests) == first {
			t.Errorf("%s makes no other image", change)
		}
	}
	if read(t, makeImage(t, "another program for ", 0o600), digests) == first {
		t.Error("another program makes no other image")
	}
}

// The image contains what the last stage of the Dockerfile puts there, for each architecture.
func TestImage(t *testing.T) {
	t.Parallel()
	out := makeImage(t, "program for ", 0o600)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	outer, err := layout.ImageIndexFromPath(filepath.Join(out, imageFolder))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(outer); err != nil {
		t.Error(err)
	}
	manifest, err := outer.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	index, err := outer.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	platforms, err := index.IndexManifest()
	if err != nil || len(platforms.Manifests) != len(architectures) {
		t.Fatalf("%+v: %v", platforms, err)
	}
	var layers []v1.Hash
	for i, architecture := range architectures {
		descriptor := platforms.Manifests[i]
		if descriptor.Platform.String() != "linux/"+architecture {
			t.Errorf("image %d is for %s", i, descriptor.Platform)
		}
		line := fmt.Sprintf("image-%s=%s\n", architecture, descriptor.Digest)
		if !strings.Contains(read(t, out, digests), line) {
			t.Errorf("the digests lack %q", line)
		}
		image, err := index.Image(descriptor.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.OS != "linux" || config.Architecture != architecture || !config.Created.Equal(at) {
			t.Errorf("the image is for %s/%s, of %s", config.OS, config.Architecture, config.Created)
		}
		checkFiles(t, image, "program for "+architecture)
		all, err := image.Layers()
		if err != nil {
			t.Fatal(err)
		}
		first, err := all[0].Digest()
		if err != nil {
			t.Fatal(err)
		}
		layers = append(layers, first)
	}
	if layers[0] != layers[1] {
		t.Error("the images do not share the certificates")
	}
}

func checkFiles(t *testing.T, image v1.Image, program string) {
	t.Helper()
	extracted := mutate.Extract(image)
	defer func() { _ = extracted.Close() }()
	found := map[string]int64{}
	for reader := tar.NewReader(extracted); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		found[header.Name] = header.Mode
		if header.Uid != 0 || header.Gid != 0 {
			t.Errorf("%s is not root's", header.Name)
		}
		switch header.Name {
		case "outbox-relay":
			if string(body) != program {
				t.Errorf("the program is %q, want %q", body, program)
			}
		case "etc/ssl/certs/ca-certificates.crt":
			if pool := x509.NewCertPool(); !pool.AppendCertsFromPEM(body) || bytes.Count(body, []byte("BEGIN")) < 100 {
				t.Error("the certificates cannot be read")
			}
		}
	}
	want := map[string]int64{
		"outbox-relay": 0o755, "etc": 0o755, "etc/ssl": 0o755, "etc/ssl/certs": 0o755,
		"etc/ssl/certs/ca-certificates.crt": 0o644,
	}
	if !maps.Equal(found, want) {
		t.Errorf("the image holds %v, want %v", found, want)
	}
}

// Every certificate belongs to an authority.
func TestRoots(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	if err := writeRoots(&text); err != nil {
		t.Fatal(err)
	}
	for rest := text.Bytes(); len(rest) > 0; {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil || !certificate.IsCA {
			t.Errorf("%v: %v", certificate, err)
		}
	}
}

// The image's configuration here equals the Dockerfile's.
func TestImageIsTheDockerfiles(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	_, last, found := strings.Cut(strings.ReplaceAll(string(text), "\\\n", ""), "\nFROM scratch\n")
	if !found {
		t.Fatal("the Dockerfile has no stage from scratch")
	}
	config := configOf(t, makeImage(t, "", 0o600, "VERSION=$VERSION", "COMMIT=$COMMIT"))
	labels := make([]string, 0, len(config.Labels))
	for name, value := range config.Labels {
		labels = append(labels, fmt.Sprintf("%s=%q", name, value))
	}
	slices.Sort(labels)
	for line := range strings.Lines(last) {
		keyword, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		var want string
		switch keyword {
		case "USER":
			want = config.User
		case "EXPOSE":
			rest, want = "map["+rest+"/tcp:{}]", fmt.Sprint(config.ExposedPorts)
		case "ENTRYPOINT":
			want = fmt.Sprintf("%q", config.Entrypoint)
		case "CMD":
			want = fmt.Sprintf("%q", config.Cmd)
		case "HEALTHCHECK":
			check := config.Healthcheck
			want = fmt.Sprintf("--interval=%s --timeout=%s --start-period=%s %s [%q, %q]",
				check.Interval, check.Timeout, check.StartPeriod, check.Test[0], check.Test[1], check.Test[2])
		case "LABEL":
			fields := strings.SplitAfter(rest, `"`)
			var given []string
			for i := 0; i+1 < len(fields); i += 2 {
				given = append(given, strings.TrimSpace(fields[i]+fields[i+1]))
			}
			slices.Sort(given)
			rest, want = strings.Join(given, " "), strings.Join(labels, " ")
		case "COPY", "ARG":
			continue
		default:
			t.Errorf("the Dockerfile says %s, of which the released image knows nothing", keyword)
		}
		if rest != want {
			t.Errorf("the Dockerfile says %s %s, the released image %s", keyword, rest, want)
		}
	}
}

// configOf returns the configuration of the first image in a folder.
func configOf(t *testing.T, folder string) v1.Config {
	t.Helper()
	outer, err := layout.ImageIndexFromPath(filepath.Join(folder, imageFolder))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := outer.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	index, err := outer.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	platforms, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	image, err := index.Image(platforms.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return file.Config
}
