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

// testRelease returns a release, and a folder of placeholders for its binaries.
func testRelease(t *testing.T) (*Release, string) {
	t.Helper()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	binaries := t.TempDir()
	for _, architecture := range architectures {
		place(t, binaries, architecture, "program for "+architecture)
	}
	return &Release{Version: "1.2.3", Commit: "abc", Time: at, Out: t.TempDir()}, binaries
}

func place(t *testing.T, binaries, architecture, text string) {
	t.Helper()
	binary := binaryOf(binaries, architecture)
	if err := errors.Join(os.MkdirAll(filepath.Dir(binary), 0o755),
		os.WriteFile(binary, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func digestsOf(t *testing.T, r *Release) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.Out, digests))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The image depends only on its contents: neither on times and modes of files, nor on folders, nor on the clock.
func TestImageIsReproducible(t *testing.T) {
	t.Parallel()
	first, binaries := testRelease(t)
	if err := first.writeImage(binaries); err != nil {
		t.Fatal(err)
	}
	second, copies := testRelease(t)
	for _, architecture := range architectures {
		binary := binaryOf(copies, architecture)
		long := time.Unix(1, 0)
		if err := errors.Join(os.Chtimes(binary, long, long), os.Chmod(binary, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	if err := second.writeImage(copies); err != nil {
		t.Fatal(err)
	}
	if one, two := digestsOf(t, first), digestsOf(t, second); one != two {
		t.Errorf("built twice:\n%s\n%s", one, two)
	}
	for i, change := range []func(*Release){
		func(r *Release) { r.Version = "1.2.4" },
		func(r *Release) { r.Time = r.Time.Add(time.Second) },
		func(*Release) { place(t, copies, "arm64", "another program") },
	} {
		changed := *second
		changed.Out = t.TempDir()
		change(&changed)
		if err := changed.writeImage(copies); err != nil {
			t.Fatal(err)
		}
		if digestsOf(t, &changed) == digestsOf(t, first) {
			t.Errorf("change %d makes no other image", i)
		}
	}
}

// The image contains what the last stage of the Dockerfile puts there, for each architecture.
func TestImage(t *testing.T) {
	t.Parallel()
	r, binaries := testRelease(t)
	if err := r.writeImage(binaries); err != nil {
		t.Fatal(err)
	}
	outer, err := layout.ImageIndexFromPath(filepath.Join(r.Out, imageFolder))
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
		if line := fmt.Sprintf("image-%s=%s\n", architecture, descriptor.Digest); !strings.Contains(digestsOf(t, r), line) {
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
		if config.OS != "linux" || config.Architecture != architecture || !config.Created.Equal(r.Time) {
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
	for rest := roots(); len(rest) > 0; {
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
	r := &Release{Version: "$VERSION", Commit: "$COMMIT"}
	config := r.config()
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
