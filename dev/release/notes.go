package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Notes prints what the changelog says of this version: the section whose heading begins with it. A version that the changelog does not
// have is an error, except one before a release, such as 0.1.0-rc.1, which has the notes of that release.
func (r *Release) Notes(to io.Writer) error {
	text, err := os.ReadFile(filepath.Join(r.Checkout, "CHANGELOG.md"))
	if err != nil {
		return fmt.Errorf("read the changelog: %w", err)
	}
	release, _, _ := strings.Cut(r.Version, "-")
	for section := range strings.SplitSeq(string(text), "\n## ") {
		heading, notes, _ := strings.Cut(section, "\n")
		if version, _, _ := strings.Cut(heading, " "); version == release {
			_, err := io.WriteString(to, strings.TrimSpace(notes)+"\n")
			return err
		}
	}
	return fmt.Errorf("CHANGELOG.md has no section that begins with ## %s", release)
}
