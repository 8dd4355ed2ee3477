package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Push pushes the files that Build has made: the image, tagged with the version, and the chart. It uses the logins of docker
// login.
func (r *Release) Push(ctx context.Context, image, charts string) error {
	if image == "" || charts == "" {
		return errors.New("say with --image and --charts where to push to")
	}
	tag, err := name.NewTag(image + ":" + r.Version)
	if err != nil {
		return fmt.Errorf("read --image: %w", err)
	}
	index, err := layout.ImageIndexFromPath(filepath.Join(r.Out, imageFolder))
	if err != nil {
		return fmt.Errorf("read the image: %w", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		return fmt.Errorf("%d images are in the layout, want one: %w", len(manifest.Manifests), err)
	}
	platforms, err := index.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		return fmt.Errorf("read the image: %w", err)
	}
	if err := remote.WriteIndex(tag, platforms, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("push the image: %w", err)
	}
	args := []string{"push", filepath.Join(r.Out, r.chart()), "oci://" + charts}
	if registry, _, _ := strings.Cut(charts, "/"); tag.Scheme() == "http" && registry == tag.RegistryStr() {
		args = append(args, "--plain-http") // a registry on this machine
	}
	return r.command(ctx, nil, filepath.Join(r.Checkout, "bin", "helm"), args...)
}
