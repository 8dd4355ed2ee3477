package main

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// shell runs commands like a workflow and returns their output.
func shell(t *testing.T, folder string, environment map[string]string, commands string) string {
	t.Helper()
	began := time.Now()
	cmd := exec.CommandContext(t.Context(), "bash", "-e", "-o", "pipefail", "-c", commands)
	cmd.Dir, cmd.Env = folder, os.Environ()
	for name, value := range maps.All(environment) {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s%s", commands, err, stdout.String(), stderr.String())
	}
	t.Logf("%s: %s", strings.SplitN(strings.TrimSpace(commands), "\n", 2)[0], time.Since(began).Round(time.Millisecond))
	return stdout.String()
}

func read(t *testing.T, folder, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
