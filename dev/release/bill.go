package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// writeBill writes the bill of materials of a binary, CycloneDX in JSON: the modules that the linker has recorded in
// it, as printed by go version -m.
func (r *Release) writeBill(binary, to string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("read what the binary is made of: %w", err)
	}
	body, err := os.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("read the binary: %w", err)
	}
	var text bytes.Buffer
	encoder := cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true)
	if err := encoder.EncodeVersion(r.bill(info, sha256.Sum256(body)), cyclonedx.SpecVersion1_6); err != nil {
		return fmt.Errorf("write the bill of materials: %w", err)
	}
	if err := os.WriteFile(to, text.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the bill of materials: %w", err)
	}
	return nil
}

func (r *Release) bill(info *debug.BuildInfo, sum [sha256.Size]byte) *cyclonedx.BOM {
	main := module(cyclonedx.ComponentTypeApplication, info.Main.Path, "v"+r.Version)
	main.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sum)}}
	main.Licenses = &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}}
	components := []cyclonedx.Component{module(cyclonedx.ComponentTypeLibrary, "std",
		strings.TrimPrefix(info.GoVersion, "go"))}
	uses := []string{components[0].BOMRef}
	for _, dependency := range info.Deps {
		if dependency.Replace != nil {
			dependency = dependency.Replace
		}
		component := module(cyclonedx.ComponentTypeLibrary, dependency.Path, dependency.Version)
		components = append(components, component)
		uses = append(uses, component.BOMRef)
	}
	bom := cyclonedx.NewBOM()
	bom.SerialNumber = serial(sum)
	bom.Metadata = &cyclonedx.Metadata{Timestamp: r.Time.UTC().Format(time.RFC3339), Component: &main}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: main.BOMRef, Dependencies: &uses}}
	return bom
}

func module(kind cyclonedx.ComponentType, path, version string) cyclonedx.Component {
	purl := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cyclonedx.Component{BOMRef: purl, Type: kind, Name: path, Version: version, PackageURL: purl}
}

// serial makes a UUID (version 8, whose bits are free) from a checksum: the same binary always has the same number.
func serial(sum [sha256.Size]byte) string {
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
