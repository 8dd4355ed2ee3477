package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A Release is one version of the program, its image and its chart.
type Release struct {
	Checkout string // path of the repository
	Version  string // without a v, as image tags and charts require
	Commit   string
	Source   string    // address of the repository, or empty
	Time     time.Time // time of the commit, and of every file in the result
	Out      string    // folder of the files; its contents are deleted
	Log      io.Writer
}

// architectures are those for which there are binaries, and images for Linux.
var architectures = []string{"amd64", "arm64"}

// systems are the operating systems for which there are binaries: one for servers, and one for the laptops from which operators run
// status, doctor and failed.
var systems = []string{linux, "darwin"}

const linux = "linux"

// versions matches versions that image tags and Helm both accept: without build metadata, since a tag cannot contain its plus
// sign.
var versions = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`)

const (
	imageFolder = "image"      // an OCI image layout
	sums        = "SHA256SUMS" // checksums of all other files
	digests     = "digests"    // name=digest of the image and its parts, one per line
)

// Build makes all files of the release.
func (r *Release) Build(ctx context.Context) error {
	if !versions.MatchString(r.Version) {
		return fmt.Errorf("%q is not a version such as 0.1.0 or 0.1.0-rc.1", r.Version)
	}
	if err := os.RemoveAll(r.Out); err != nil {
		return fmt.Errorf("empty %s: %w", r.Out, err)
	}
	work := filepath.Join(r.Out, "work")
	if err := os.MkdirAll(work, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", r.Out, err)
	}
	binaries := map[string]string{} // for Linux
	for _, system := range systems {
		for _, architecture := range architectures {
			binary := filepath.Join(work, "outbox-relay-"+system+"-"+architecture)
			if err := r.compile(ctx, system, architecture, binary); err != nil {
				return err
			}
			if system == linux {
				binaries[architecture] = binary
			}
			if err := r.archive(binary, r.file(system, architecture, "tar.gz")); err != nil {
				return err
			}
			if err := r.writeBill(binary, r.file(system, architecture, "cdx.json")); err != nil {
				return err
			}
		}
	}
	if err := r.writeImage(binaries); err != nil {
		return err
	}
	if err := r.packageChart(ctx, work); err != nil {
		return err
	}
	if err := os.RemoveAll(work); err != nil {
		return fmt.Errorf("tidy up: %w", err)
	}
	return r.writeSums()
}

// file returns the name of a file of the release for one platform.
func (r *Release) file(system, architecture, ending string) string {
	return filepath.Join(r.Out, fmt.Sprintf("outbox-relay_%s_%s_%s.%s", r.Version, system, architecture, ending))
}

// compile builds the binary as make build does.
func (r *Release) compile(ctx context.Context, system, architecture, to string) error {
	return r.command(ctx, []string{"GOOS=" + system, "GOARCH=" + architecture, "MAKEFLAGS="},
		"make", "build", "OUT="+to, "VERSION="+r.Version, "COMMIT="+r.Commit)
}

// command runs a program in the repository.
func (r *Release) command(ctx context.Context, environment []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = r.Checkout, append(os.Environ(), environment...)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, said.String())
	}
	return nil
}

// writeSums writes the checksums of all files, for sha256sum --check, and prints them.
func (r *Release) writeSums() error {
	entries, err := os.ReadDir(r.Out)
	if err != nil {
		return fmt.Errorf("list the files: %w", err)
	}
	var lines []string
	for _, entry := range entries {
		if !entry.Type().IsRegular() {
			continue
		}
		content, err := os.ReadFile(filepath.Join(r.Out, entry.Name()))
		if err != nil {
			return fmt.Errorf("read a file: %w", err)
		}
		lines = append(lines, fmt.Sprintf("%x  %s\n", sha256.Sum256(content), entry.Name()))
	}
	slices.Sort(lines)
	text := strings.Join(lines, "")
	if err := os.WriteFile(filepath.Join(r.Out, sums), []byte(text), 0o644); err != nil {
		return fmt.Errorf("write the checksums: %w", err)
	}
	_, err = io.WriteString(r.Log, text)
	return err
}
