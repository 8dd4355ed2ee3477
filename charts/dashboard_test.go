package charts

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

const dashboardFile = "outbox-relay/files/dashboard.json"

// Every query of the dashboard asks the chosen data source for the chosen relays. A test with a real Prometheus checks
// that each query has data (TestAlerts in e2e).
func TestDashboard(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	type source struct{ Type, UID string }
	var dashboard struct {
		Templating struct{ List []struct{ Name string } }
		Panels     []struct {
			ID                       int
			Type, Title, Description string
			Datasource               source
			FieldConfig              struct{ Defaults struct{ Unit string } }
			Targets                  []struct {
				Expr       string
				Datasource source
			}
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	var variables []string
	for _, variable := range dashboard.Templating.List {
		variables = append(variables, variable.Name)
	}
	if got := strings.Join(variables, " "); got != "datasource namespace job destination" {
		t.Errorf("the variables are %s", got)
	}
	ids, chosen := map[int]bool{}, source{"prometheus", "${datasource}"}
	for _, panel := range dashboard.Panels {
		if ids[panel.ID] {
			t.Errorf("%s has an id that another panel has", panel.Title)
		}
		ids[panel.ID] = true
		if panel.Type == "row" {
			continue
		}
		if panel.Datasource != chosen || panel.Description == "" || panel.FieldConfig.Defaults.Unit == "" ||
			len(panel.Targets) == 0 {
			t.Errorf("%s lacks the data source, a description, a unit or queries", panel.Title)
		}
		for _, target := range panel.Targets {
			const relays = `{namespace=~"$namespace",job=~"$job"`
			if target.Datasource != chosen || strings.Count(target.Expr, relays) != strings.Count(target.Expr, "{") {
				t.Errorf("%s: %s asks for other relays than the chosen ones", panel.Title, target.Expr)
			}
			fits := strings.Contains(target.Expr, "[$__rate_interval]") || strings.Contains(target.Expr, "[1h]")
			if strings.Contains(target.Expr, "rate(") && !fits {
				t.Errorf("%s: %s takes a rate over a time that does not fit the scrapes", panel.Title, target.Expr)
			}
		}
	}

	rendered, err := helm(t,
		append(append([]string{"template", "shop", "outbox-relay"}, minimal...), "dashboard.enabled=true")...)
	if err != nil {
		t.Fatal(err)
	}
	maps := decode(t, rendered).configMaps
	if len(maps) != 1 || maps[0].Labels["grafana_dashboard"] != "1" ||
		strings.TrimSpace(maps[0].Data["outbox-relay.json"]) != strings.TrimSpace(string(text)) {
		t.Errorf("the ConfigMap does not hold the dashboard: %v", maps)
	}
}
