package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

// An archive does not depend on the order of its files, and contains them unchanged.
func TestArchive(t *testing.T) {
	t.Parallel()
	files := []file{{"a/b/c", 0o644, []byte("c")}, {"a/d", 0o755, []byte("d")}, {"e", 0o644, nil}}
	mixed := []file{files[2], files[0], files[1]}
	one, two := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "two")
	at := time.Unix(1_700_000_000, 0)
	for to, what := range map[string][]file{one: files, two: mixed} {
		if err := writeArchive(to, what, at); err != nil {
			t.Fatal(err)
		}
	}
	first, err := os.ReadFile(one)
	if err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(two)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Error("the archives differ")
	}
	unpacked, err := unpack(two)
	if err != nil {
		t.Fatal(err)
	}
	files[2].body = []byte{}
	if !reflect.DeepEqual(unpacked, files) {
		t.Errorf("unpacked: %v, want %v", unpacked, files)
	}
}
