package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mutated returns the file with the mutant's change. It is an error if the piece to replace does not occur exactly once.
func (m mutant) mutated(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return nil, fmt.Errorf("mutant %q: %w", m.name, err)
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		return nil, fmt.Errorf("mutant %q: its piece of %s is there %d times: the code has changed, so must the mutant:\n%s", m.name, m.file, n,
			m.old)
	}
	return []byte(strings.Replace(string(text), m.old, m.new, 1)), nil
}

// overlay writes the file for the go command's -overlay flag to a directory, and returns its name.
func (m mutant) overlay(root, dir string) (string, error) {
	text, err := m.mutated(root)
	if err != nil {
		return "", err
	}
	changed := filepath.Join(dir, filepath.Base(m.file))
	if err := os.WriteFile(changed, text, 0o600); err != nil {
		return "", fmt.Errorf("write mutant: %w", err)
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, m.file): changed}})
	if err != nil {
		return "", fmt.Errorf("write overlay: %w", err)
	}
	name := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(name, list, 0o600); err != nil {
		return "", fmt.Errorf("write overlay: %w", err)
	}
	return name, nil
}
