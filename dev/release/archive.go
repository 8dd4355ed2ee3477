package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A file is a member of an archive.
type file struct {
	name string
	mode int64
	body []byte
}

// archive packs a binary with its accompanying texts.
func (r *Release) archive(binary, to string) error {
	body, err := os.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("read the binary: %w", err)
	}
	files := []file{{"outbox-relay", 0o755, body}}
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		text, err := os.ReadFile(filepath.Join(r.Checkout, name))
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		files = append(files, file{name, 0o644, text})
	}
	return writeArchive(to, files, r.Time)
}

// writeArchive writes a .tar.gz that depends only on the files and the time.
func writeArchive(to string, files []file, at time.Time) error {
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	_, err := zip.Write(pack(files, at))
	if err := errors.Join(err, zip.Close()); err != nil {
		return fmt.Errorf("compress: %w", err)
	}
	if err := os.WriteFile(to, packed.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	return nil
}

// pack makes a tar of files and their folders, all owned by root.
func pack(files []file, at time.Time) []byte {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	var packed bytes.Buffer
	writer := tar.NewWriter(&packed)
	folders := map[string]bool{".": true}
	for _, f := range files {
		for _, folder := range parents(f.name) {
			if !folders[folder] {
				folders[folder] = true
				_ = writer.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: folder + "/", Mode: 0o755, ModTime: at}) // memory never fails
			}
		}
		_ = writer.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.body)), ModTime: at})
		_, _ = writer.Write(f.body)
	}
	_ = writer.Close()
	return packed.Bytes()
}

// parents lists the folders above a file, the outermost first.
func parents(name string) (folders []string) {
	for folder := path.Dir(name); folder != "."; folder = path.Dir(folder) {
		folders = append([]string{folder}, folders...)
	}
	return folders
}

// unpack reads a .tar.gz.
func unpack(from string) (files []file, err error) {
	opened, err := os.Open(from)
	if err != nil {
		return nil, fmt.Errorf("open the archive: %w", err)
	}
	defer func() { _ = opened.Close() }()
	unzipped, err := gzip.NewReader(opened)
	if err != nil {
		return nil, fmt.Errorf("decompress %s: %w", from, err)
	}
	reader := tar.NewReader(unzipped)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		} else if err != nil {
			return nil, fmt.Errorf("unpack %s: %w", from, err)
		}
		body, err := io.ReadAll(reader)
		if err != nil {
			return nil, fmt.Errorf("unpack %s: %w", from, err)
		}
		if header.Typeflag == tar.TypeReg {
			files = append(files, file{header.Name, header.Mode, body})
		}
	}
}
