package main

import (
	"debug/buildinfo"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
)

// The bill of materials of this test's own binary names every module that go version -m names, and Go itself.
func TestBill(t *testing.T) {
	t.Parallel()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	environment := map[string]string{"VERSION": "1.2.3", "AT": "2026-01-02T03:04:05Z"}
	to := filepath.Join(t.TempDir(), "bill.json")
	text := shell(t, ".", environment, "./bill.sh "+binary)
	if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	checkBill(t, binary, to)
	if shell(t, ".", environment, "./bill.sh "+binary) != text {
		t.Error("written twice, the bills differ")
	}
}

// checkBill compares a bill of materials with its binary.
func checkBill(t *testing.T, binary, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var bom cyclonedx.BOM
	if err := json.Unmarshal(text, &bom); err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, component := range *bom.Components {
		named[component.PackageURL] = true
	}
	for _, dependency := range info.Deps {
		if dependency.Replace == nil &&
			!named["pkg:golang/"+dependency.Path+"@"+strings.ReplaceAll(dependency.Version, "+", "%2B")] {
			t.Errorf("%s %s is not in the bill", dependency.Path, dependency.Version)
		}
	}
	if !named["pkg:golang/std@"+strings.TrimPrefix(info.GoVersion, "go")] || len(*bom.Components) != len(info.Deps)+1 {
		t.Errorf("%d modules are linked, and Go; the bill names %d things", len(info.Deps), len(*bom.Components))
	}
	if len(*(*bom.Dependencies)[0].Dependencies) != len(*bom.Components) || bom.Metadata.Component.Name != info.Main.Path {
		t.Errorf("%s depends on %d things", bom.Metadata.Component.Name, len(*(*bom.Dependencies)[0].Dependencies))
	}
}
