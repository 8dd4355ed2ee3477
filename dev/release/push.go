package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Push pushes the image that was written before, tagged with the version. It uses the logins of docker login.
func (r *Release) Push(ctx context.Context, image string) error {
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
	err = remote.WriteIndex(tag, platforms, remote.WithContext(ctx),
		remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err != nil {
		return fmt.Errorf("push the image: %w", err)
	}
	return nil
}
