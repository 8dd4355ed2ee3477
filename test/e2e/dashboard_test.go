package e2e

import (
	"cmp"
	"encoding/json"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const plotFile = "../../docs/alerts.svg"

// panel is the part of a panel of the Grafana dashboard that the tests read.
type panel struct {
	Title   string `json:"title"`
	Type    string `json:"type"`
	Targets []struct {
		Expr   string `json:"expr"`
		Legend string `json:"legendFormat"`
	} `json:"targets"`
	FieldConfig struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
}

// checkDashboard runs every query of the dashboard over the life of the server, and draws some panels when golden files
// are written.
func checkDashboard(t *testing.T, p *prometheus, faults, repaired time.Time) {
	t.Helper()
	text, err := os.ReadFile("../../charts/outbox-relay/files/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []panel `json:"panels"`
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$namespace", ".*", "$job", ".*", "$destination", ".*", "$__rate_interval", "3s",
		"[1h]", "[10s]")
	var plots []plot
	for _, panel := range dashboard.Panels {
		drawn := plot{title: panel.Title, unit: panel.FieldConfig.Defaults.Unit}
		for _, target := range panel.Targets {
			query := variables.Replace(target.Expr)
			curves, err := p.curves(query)
			if err != nil {
				t.Errorf("%s: %v\n%s", panel.Title, err, query)
			}
			if !slices.ContainsFunc(curves, func(c curve) bool {
				return slices.ContainsFunc(c.values, func(v float64) bool { return !math.IsNaN(v) })
			}) {
				t.Errorf("%s: no data\n%s", panel.Title, query)
			}
			for _, c := range curves {
				drawn.lines = append(drawn.lines, line{legend(target.Legend, c.labels), c})
			}
		}
		if panel.Type == "timeseries" {
			plots = append(plots, drawn)
		}
	}
	if *update {
		chosen := []string{"Relayed", "Oldest row that waits", "Held rows", "Reachable", "Failed rows", "Dead rows"}
		plots = slices.DeleteFunc(plots, func(p plot) bool { return !slices.Contains(chosen, p.title) })
		if err := os.WriteFile(plotFile, []byte(draw(plots, faults, repaired)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

var labelOf = regexp.MustCompile(`\{\{(\w+)\}\}`)

// legend is the text that Grafana writes for a series.
func legend(format string, labels map[string]string) string {
	name := labelOf.ReplaceAllStringFunc(format, func(name string) string { return labels[strings.Trim(name, "{}")] })
	return cmp.Or(strings.TrimSpace(strings.ReplaceAll(name, "default", "")), name) // each relay has one destination
}
