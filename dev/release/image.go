package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	linux       = "linux"
	imageFolder = "image"   // an OCI image layout
	digests     = "digests" // name=digest of the image and its parts, one per line
)

// architectures are those for which there are images.
var architectures = []string{"amd64", "arm64"}

// writeImage writes an OCI image layout with an image for each architecture, and the digests of all. It is the image of
// the Dockerfile: from scratch, certificates and the binary. The certificates come from a Go module, so that no other
// image is needed.
func (r *Release) writeImage(binaries string) error {
	certificates, err := layer("etc/ssl/certs/ca-certificates.crt", 0o644, roots(), r.Time)
	if err != nil {
		return err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var lines strings.Builder
	for _, architecture := range architectures {
		image, err := r.image(architecture, binaryOf(binaries, architecture), certificates)
		if err != nil {
			return err
		}
		of := v1.Descriptor{Platform: &v1.Platform{OS: linux, Architecture: architecture}}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: of})
		digest, err := image.Digest()
		if err != nil {
			return fmt.Errorf("compute a digest: %w", err)
		}
		fmt.Fprintf(&lines, "image-%s=%s\n", architecture, digest)
	}
	annotated, ok := mutate.Annotations(index, r.labels()).(v1.ImageIndex)
	if !ok {
		return fmt.Errorf("annotations make no index of an index")
	}
	folder, err := layout.Write(filepath.Join(r.Out, imageFolder), empty.Index)
	if err != nil {
		return fmt.Errorf("write the image: %w", err)
	}
	tag := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": r.Version})
	if err := folder.AppendIndex(annotated, tag); err != nil {
		return fmt.Errorf("write the image: %w", err)
	}
	digest, err := annotated.Digest()
	if err != nil {
		return fmt.Errorf("compute a digest: %w", err)
	}
	fmt.Fprintf(&lines, "image=%s\n", digest)
	if err := os.WriteFile(filepath.Join(r.Out, digests), []byte(lines.String()), 0o644); err != nil {
		return fmt.Errorf("write the digests: %w", err)
	}
	return nil
}

// binaryOf returns where release.sh puts the binary for an architecture.
func binaryOf(folder, architecture string) string {
	return filepath.Join(folder, linux+"-"+architecture, "outbox-relay")
}

// image returns the image for an architecture.
func (r *Release) image(architecture, binary string, certificates v1.Layer) (v1.Image, error) {
	body, err := os.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("read the binary: %w", err)
	}
	program, err := layer("outbox-relay", 0o755, body, r.Time)
	if err != nil {
		return nil, err
	}
	at := v1.Time{Time: r.Time.UTC()}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	base, err = mutate.ConfigFile(base, &v1.ConfigFile{
		OS: linux, Architecture: architecture, Created: at, RootFS: v1.RootFS{Type: "layers"}, Config: r.config(),
	})
	if err != nil {
		return nil, fmt.Errorf("configure the image: %w", err)
	}
	history := func(by string) v1.History { return v1.History{Created: at, CreatedBy: by} }
	image, err := mutate.Append(base,
		mutate.Addendum{Layer: certificates, History: history("certificates of authorities")},
		mutate.Addendum{Layer: program, History: history("outbox-relay " + r.Version)})
	if err != nil {
		return nil, fmt.Errorf("put the image together: %w", err)
	}
	return image, nil
}

// config is the configuration from the Dockerfile; a test compares the two.
func (r *Release) config() v1.Config {
	return v1.Config{
		User: "65532:65532",
		// Docker sets this in every image
		Env:          []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		ExposedPorts: map[string]struct{}{"9630/tcp": {}},
		Entrypoint:   []string{"/outbox-relay"},
		Cmd:          []string{"run"},
		WorkingDir:   "/",
		Healthcheck: &v1.HealthConfig{
			Test:     []string{"CMD", "/outbox-relay", "healthcheck"},
			Interval: 10 * time.Second, Timeout: 3 * time.Second, StartPeriod: 5 * time.Second,
		},
		Labels: r.labels(),
	}
}

func (r *Release) labels() map[string]string {
	const prefix = "org.opencontainers.image."
	labels := map[string]string{
		prefix + "title":       "outbox-relay",
		prefix + "description": "Publishes the rows of a transactional outbox table to Kafka, NATS JetStream or RabbitMQ",
		prefix + "licenses":    "Apache-2.0",
		prefix + "version":     r.Version,
		prefix + "revision":    r.Commit,
	}
	if r.Source != "" {
		labels[prefix+"source"] = r.Source
	}
	return labels
}

// layer returns a layer of one file, with its folders, all owned by root.
func layer(name string, mode int64, body []byte, at time.Time) (v1.Layer, error) {
	var packed bytes.Buffer
	writer := tar.NewWriter(&packed) // memory never fails
	for i, c := range name {
		if c == '/' {
			_ = writer.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name[:i+1], Mode: 0o755, ModTime: at})
		}
	}
	_ = writer.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(body)), ModTime: at})
	_, _ = writer.Write(body)
	_ = writer.Close()
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil }
	made, err := tarball.LayerFromOpener(opener, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("make a layer: %w", err)
	}
	return made, nil
}

// roots returns the certificates of the authorities that Mozilla trusts for everything. Authorities that it trusts in
// part are left out: a file cannot say which part.
func roots() []byte {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // memory never fails
		}
	}
	return text.Bytes()
}
