package examples

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/sql"
)

// The statements of the runbook of alerts run in psql.
func TestAlertsSQL(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
	for _, sample := range claimed(t, "TestAlertsSQL") {
		command := exec.CommandContext(t.Context(), "psql", "-q", "-v", "ON_ERROR_STOP=1", "-f", "-", psqlURL(s))
		command.Stdin = strings.NewReader(sample.text)
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("%s:%d: %v: %s", sample.document, sample.line, err, out)
		}
	}
}

// The inhibitions name alerts that the chart has.
func TestInhibitions(t *testing.T) {
	t.Parallel()
	alerts := read(t, "charts/outbox-relay/files/alerts.yaml")
	matcher := regexp.MustCompile(`alertname=~?"([^"]+)"`)
	for _, sample := range claimed(t, "TestInhibitions") {
		var config struct {
			Rules []struct {
				Source []string `json:"source_matchers"`
				Target []string `json:"target_matchers"`
				Equal  []string `json:"equal"`
			} `json:"inhibit_rules"`
		}
		if err := yaml.UnmarshalStrict([]byte(sample.text), &config); err != nil {
			t.Fatal(err)
		}
		if len(config.Rules) == 0 {
			t.Errorf("%s:%d has no rules", sample.document, sample.line)
		}
		for _, rule := range config.Rules {
			for _, match := range matcher.FindAllStringSubmatch(strings.Join(append(rule.Source, rule.Target...), " "), -1) {
				prefix, list, _ := strings.Cut(strings.TrimSuffix(match[1], ")"), "(")
				for suffix := range strings.SplitSeq(list, "|") {
					if !strings.Contains(alerts, "alert: "+prefix+suffix+"\n") {
						t.Errorf("%s:%d: there is no alert %s", sample.document, sample.line, prefix+suffix)
					}
				}
			}
		}
	}
}
