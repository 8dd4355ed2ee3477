// Command release prints the certificates of the authorities that Mozilla trusts, for the image of a release.
package main

import (
	"encoding/pem"
	"fmt"
	"io"
	"os"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

func main() {
	if err := writeRoots(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// writeRoots writes the certificates of the authorities that Mozilla trusts for everything. Authorities that it trusts
// in part are left out: a file cannot say which part.
func writeRoots(to io.Writer) error {
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(to, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return fmt.Errorf("write a certificate: %w", err)
		}
	}
	return nil
}
