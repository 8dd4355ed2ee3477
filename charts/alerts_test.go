package charts

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const alertsFile = "outbox-relay/files/alerts.yaml"

// alertTests are tests for promtool. The second one evaluates the rules only every half an hour of simulated time,
// which saves a minute.
var alertTests = []string{"testdata/alerts_test.yaml", "testdata/alertdays_test.yaml"}

// ruleFile is a file of rules for Prometheus.
type ruleFile struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []rule `json:"rules"`
	} `json:"groups"`
}

type rule struct {
	Record      string            `json:"record,omitempty"`
	Alert       string            `json:"alert,omitempty"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

func (f ruleFile) rules() (all []rule) {
	for _, group := range f.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

// promtool runs the tool that comes with Prometheus.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	binary, err := filepath.Abs("../bin/promtool")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(binary, args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v (if it is missing, run make test-chart)\n%s", strings.Join(args, " "), err, out)
	}
}

func alerts(t *testing.T) ruleFile {
	t.Helper()
	text, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	var file ruleFile
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		t.Fatal(err)
	}
	return file
}

// The alerts fire and end at the right time for synthetic series.
func TestAlerts(t *testing.T) {
	t.Parallel()
	promtool(t, "check", "rules", alertsFile)
	promtool(t, append([]string{"test", "rules"}, alertTests...)...)
}

// Every alert is tested both ways, is explained, states its meaning, and watches only the intended relays.
func TestAlertsAreComplete(t *testing.T) {
	t.Parallel()
	fires, ends := seen(t)
	runbook, err := os.ReadFile("../docs/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range alerts(t).rules() {
		if open, all := strings.Count(rule.Expr, `{job!=""`), strings.Count(rule.Expr, "{"); open != all || all == 0 {
			t.Errorf(`%s%s: %d of %d selectors begin with {job!="", which stands for the relays to watch`, rule.Alert,
				rule.Record, open, all)
		}
		if rule.Alert == "" {
			continue
		}
		if !fires[rule.Alert] || !ends[rule.Alert] {
			t.Errorf("%v must see %s fire and end", alertTests, rule.Alert)
		}
		if !strings.Contains(string(runbook), "\n### "+rule.Alert+"\n") {
			t.Errorf("docs/alerts.md does not explain %s", rule.Alert)
		}
		if !strings.HasSuffix(rule.Annotations["runbook_url"], "/docs/alerts.md#"+strings.ToLower(rule.Alert)) {
			t.Errorf("%s: runbook_url is %q", rule.Alert, rule.Annotations["runbook_url"])
		}
		severity := rule.Labels["severity"]
		templated := strings.HasPrefix(severity, "{{ with ") &&
			strings.HasSuffix(severity, "}}warning{{ else }}critical{{ end }}")
		if !slices.Contains([]string{"critical", "warning"}, severity) && !templated ||
			rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
			t.Errorf("%s has no severity, summary or description", rule.Alert)
		}
	}
}

// seen returns the alerts that a test expects to fire, and those that it expects to end afterwards.
func seen(t *testing.T) (fires, ends map[string]bool) {
	t.Helper()
	fires, ends = map[string]bool{}, map[string]bool{}
	for _, file := range alertTests {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var content struct {
			Tests []struct {
				AlertRuleTest []struct {
					AlertName string `json:"alertname"`
					ExpAlerts []any  `json:"exp_alerts"`
				} `json:"alert_rule_test"`
			} `json:"tests"`
		}
		if err := yaml.Unmarshal(text, &content); err != nil {
			t.Fatal(err)
		}
		for _, test := range content.Tests {
			for _, expected := range test.AlertRuleTest {
				if len(expected.ExpAlerts) > 0 {
					fires[expected.AlertName] = true
				} else if fires[expected.AlertName] {
					ends[expected.AlertName] = true
				}
			}
		}
	}
	return fires, ends
}

// The chart's rules equal those of the file, restricted to the relays of the release.
func TestPrometheusRule(t *testing.T) {
	t.Parallel()
	for set, matchers := range map[string]string{
		"serviceMonitor.enabled=true":                                                       `namespace="orders",job="shop-outbox-relay"`,
		"podMonitor.enabled=true":                                                           `namespace="orders",job="orders/shop-outbox-relay"`,
		"mode=sidecar,podMonitor.enabled=true,podMonitor.selector.app=x":                    `namespace="orders",job="orders/shop-outbox-relay"`,
		"serviceMonitor.enabled=true,prometheusRule.matchers=app=~\"a|b\"":                  `app=~"a|b"`,
		"podMonitor.enabled=true,fullnameOverride=relay,prometheusRule.alertLabels.team=me": `namespace="orders",job="orders/relay"`,
	} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			rendered, err := helm(t, append([]string{
				"template", "shop", "outbox-relay", "--namespace", "orders",
				"--set", "prometheusRule.enabled=true,prometheusRule.disabled={OutboxRelayAbsent}",
			}, append(minimal, set)...)...)
			if err != nil {
				t.Fatal(err)
			}
			all := decode(t, rendered)
			if len(all.rules) != 1 {
				t.Fatalf("%d objects with rules", len(all.rules))
			}
			got, want := all.rules[0].Spec.rules(), slices.DeleteFunc(alerts(t).rules(), func(r rule) bool {
				return r.Alert == "OutboxRelayAbsent"
			})
			if len(got) != len(want) {
				t.Fatalf("%d rules, want %d", len(got), len(want))
			}
			for i := range want {
				expr := strings.ReplaceAll(want[i].Expr, `job!=""`, matchers)
				if got[i].Alert != want[i].Alert || got[i].Record != want[i].Record || got[i].Expr != expr ||
					got[i].For != want[i].For {
					t.Errorf("%+v\nis not\n%+v", got[i], want[i])
				}
				if !maps.Equal(got[i].Annotations, want[i].Annotations) {
					t.Errorf("%s: annotations are %v", got[i].Alert, got[i].Annotations)
				}
				added := got[i].Alert != "" && strings.Contains(set, "team=me")
				if added != (got[i].Labels["team"] == "me") || got[i].Labels["severity"] != want[i].Labels["severity"] {
					t.Errorf("%s: labels are %v", got[i].Alert, got[i].Labels)
				}
			}
			text, err := yaml.Marshal(all.rules[0].Spec)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "rules.yaml")
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
			promtool(t, "check", "rules", file)
		})
	}
}
