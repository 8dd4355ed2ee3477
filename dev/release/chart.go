package main

import (
	"context"
	"path/filepath"
)

// packageChart packs the chart, with the release's version for the chart and for the image. Helm writes the times of the
// checkout's files, so the chart is then packed again.
func (r *Release) packageChart(ctx context.Context, work string) error {
	if err := r.command(ctx, nil, filepath.Join(r.Checkout, "bin", "helm"), "package", filepath.Join("charts", "outbox-relay"),
		"--version", r.Version, "--app-version", r.Version, "--destination", work); err != nil {
		return err
	}
	files, err := unpack(filepath.Join(work, r.chart()))
	if err != nil {
		return err
	}
	return writeArchive(filepath.Join(r.Out, r.chart()), files, r.Time)
}

// chart is the name that Helm gives the file.
func (r *Release) chart() string { return "outbox-relay-" + r.Version + ".tgz" }
