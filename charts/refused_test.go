package charts

import (
	"strings"
	"testing"
)

// minimal are the values to which the cases below add.
var minimal = []string{"--values", "outbox-relay/ci/minimal-values.yaml", "--set"}

// Invalid values are refused before anything is deployed.
func TestRefusedValues(t *testing.T) {
	t.Parallel()
	const destinations = "settings.OUTBOX_DESTINATIONS=orders\\,old-audit,"
	for name, test := range map[string]struct{ set, want string }{ // set is added to minimal-values.yaml
		"no image":              {"image.repository=", "image.repository is missing"},
		"in settings and files": {"settings.OUTBOX_DATABASE_URL=x", "is both in files and in settings"},
		"address as setting":    {"settings.OUTBOX_HTTP_ADDR=:1", "http.port"},
		"address in env":        {"extraEnv[0].name=OUTBOX_HTTP_ADDR,extraEnv[0].value=:1", "http.port"},
		"address's file in env": {"extraEnv[0].name=OUTBOX_HTTP_ADDR_FILE,extraEnv[0].value=/x", "http.port"},
		"metrics' address":      {"settings.OUTBOX_METRICS_ADDR=:9631", "http.metricsPort"},
		"metrics on port 80":    {"http.metricsPort=80", "metricsPort"},
		"address as file":       {"files.OUTBOX_HTTP_ADDR.key=x,files.OUTBOX_HTTP_ADDR.secret=y", "http.port"},
		"unknown value":         {"replica=3", "replica"},
		"unknown mode":          {"mode=daemonset", "mode"},
		"setting in small":      {"settings.outbox_table=x", "outbox_table"},
		"unknown setting": {
			"settings.OUTBOX_TABEL=x",
			"OUTBOX_TABEL is not a setting of version 0.1.0: did you mean OUTBOX_TABLE?",
		},
		"underscore missing": {"settings.OUTBOX_BATCHSIZE=x", "did you mean OUTBOX_BATCH_SIZE?"},
		"letter too many":    {"settings.OUTBOX_SHARDSS=x", "did you mean OUTBOX_SHARDS?"},
		"wrong letter": {
			"files.OUTBOX_TLS_KAY.key=x,files.OUTBOX_TLS_KAY.secret=y",
			"did you mean OUTBOX_TLS_KEY_FILE?",
		},
		"nothing like it":       {"settings.OUTBOX_COLOUR=x", "/docs/settings.md lists them"},
		"memory without a size": {"resources.limits.memory=lots", "memory"},
		"resources misspelt":    {"resources.limit.memory=1Gi", "limit"},
		"prune's resources":     {"prune.enabled=true,prune.resources.requests.cpu=much", "cpu"},
		"unknown file": {
			"files.OUTBOX_TLS_CAA.key=x,files.OUTBOX_TLS_CAA.secret=y",
			"OUTBOX_TLS_CAA_FILE is not a setting",
		},
		"unknown in env": {"extraEnv[0].name=OUTBOX_BATCH,extraEnv[0].value=x", "OUTBOX_BATCH is not a setting"},
		"destination not listed": {
			destinations + "settings.OUTBOX_DESTINATION_AUDIT_TOPICS=x",
			"not a setting of a destination",
		},
		"destination of none": {"settings.OUTBOX_DESTINATION_AUDIT_TOPICS=x", "in OUTBOX_DESTINATIONS (not set)"},
		"unknown of destination": {
			destinations + "settings.OUTBOX_DESTINATION_ORDERS_TOPIX=x",
			"OUTBOX_DESTINATION_ORDERS_TOPIX is not",
		},
		"common of destination": {
			destinations + "settings.OUTBOX_DESTINATION_ORDERS_SHARDS=4",
			"OUTBOX_DESTINATION_ORDERS_SHARDS is not",
		},
		"file of no source":   {"files.OUTBOX_TLS_CA.key=x", "OUTBOX_TLS_CA"},
		"file named by _FILE": {"files.OUTBOX_TLS_CA_FILE.key=x,files.OUTBOX_TLS_CA_FILE.secret=y", "OUTBOX_TLS_CA_FILE"},
		"digest cut short":    {"image.digest=sha256:12", "digest"},
		"privileged port":     {"http.port=80", "port"},
		"two monitors":        {"podMonitor.enabled=true,serviceMonitor.enabled=true", "enable one of them"},
		"monitor of no pods":  {"mode=sidecar,podMonitor.enabled=true", "podMonitor.selector is missing"},
		"rules of nobody":     {"prometheusRule.enabled=true", "prometheusRule.matchers is missing"},
		"unknown alert": {
			"prometheusRule.enabled=true,prometheusRule.matchers=x,prometheusRule.disabled[0]=None",
			"there is no such alert",
		},
		"policy for the app": {"mode=sidecar,networkPolicy.enabled=true", "would cut the application off"},
		"short grace period": {"terminationGracePeriodSeconds=25", "OUTBOX_SHUTDOWN_TIMEOUT 25s"},
		"long shutdown": {
			"settings.OUTBOX_SHUTDOWN_TIMEOUT=1m30s,terminationGracePeriodSeconds=90",
			"OUTBOX_SHUTDOWN_TIMEOUT 1m30s",
		},
		"long shutdown in env": {
			"extraEnv[0].name=OUTBOX_SHUTDOWN_TIMEOUT,extraEnv[0].value=0.5m",
			"OUTBOX_SHUTDOWN_TIMEOUT 0.5m",
		},
		"retention without unit": {"prune.enabled=true,prune.olderThan=7", "olderThan"},
		"unknown in prune.files": {
			"prune.enabled=true,prune.files.OUTBOX_DB.key=x,prune.files.OUTBOX_DB.secret=y",
			"OUTBOX_DB_FILE",
		},
		"unknown in a rule's set": {"networkPolicy.enabled=true,networkPolicy.database.port=1", "port"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantRefused(t, test.want, append(minimal, test.set)...)
		})
	}
}

// Similar values that are valid are not refused.
func TestAcceptedValues(t *testing.T) {
	t.Parallel()
	const destinations = "settings.OUTBOX_DESTINATIONS=orders\\,old-audit,"
	for name, set := range map[string]string{
		"setting of a destination": destinations + "settings.OUTBOX_DESTINATION_OLD_AUDIT_TOPICS=x",
		"file of a destination": destinations + "files.OUTBOX_DESTINATION_ORDERS_TLS_CA.key=x," +
			"files.OUTBOX_DESTINATION_ORDERS_TLS_CA.secret=y",
		"path of a file":               "settings.OUTBOX_TLS_CA_FILE=/etc/ca.crt",
		"destinations not known here":  "settings.OUTBOX_DESTINATIONS_FILE=/x,settings.OUTBOX_DESTINATION_X_TOPICS=x",
		"destinations in a ConfigMap":  "envFrom[0].configMapRef.name=y,settings.OUTBOX_DESTINATION_X_TOPICS=x",
		"image newer than the chart":   "checkSettings=false,settings.OUTBOX_NEW=x",
		"variables of others":          "extraEnv[0].name=HTTP_PROXY,extraEnv[0].value=x",
		"grace period just longer":     "settings.OUTBOX_SHUTDOWN_TIMEOUT=1m30s,terminationGracePeriodSeconds=91",
		"short shutdown":               "settings.OUTBOX_SHUTDOWN_TIMEOUT=500ms,terminationGracePeriodSeconds=1",
		"grace period of a sidecar":    "mode=sidecar,settings.OUTBOX_SHUTDOWN_TIMEOUT=10m",
		"shutdown that is not set":     "settings.OUTBOX_SHUTDOWN_TIMEOUT=",
		"addresses from whole Secrets": "files=null,envFrom[0].secretRef.name=x",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := helm(t, append([]string{"template", "shop", "outbox-relay"}, append(minimal, set)...)...); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRefusedWithoutAddresses(t *testing.T) {
	t.Parallel()
	image := []string{"--set", "image.repository=registry.example.com/outbox-relay"}
	wantRefused(t, "OUTBOX_DATABASE_URL is missing", image...)
	wantRefused(t, "OUTBOX_PUBLISH_URL is missing", append(image, "--set", "settings.OUTBOX_DATABASE_URL=x")...)
}

// A sidecar's image is required as well, and a cluster without native sidecars is refused with the remedy.
func TestRefusedSidecars(t *testing.T) {
	t.Parallel()
	app := exampleApp(t)
	for set, want := range map[string]string{
		"outbox-relay.image.repository=":           "image.repository is missing",
		"outbox-relay.settings.OUTBOX_DATABESE=x":  "OUTBOX_DATABESE is not a setting",
		"outbox-relay.extraEnv[0].name=OUTBOX_TBL": "OUTBOX_TBL is not a setting",
	} {
		if _, err := helm(t, "template", "orders", app, "--set", set); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, which does not say %q", set, err, want)
		}
	}
	_, err := helm(t, "template", "orders", app, "--kube-version", "1.28.5")
	if err == nil || !strings.Contains(err.Error(), "sidecar.native") {
		t.Errorf("Kubernetes 1.28: %v", err)
	}
	if _, err := helm(t, "template", "orders", app, "--kube-version", "1.28.5", "--set",
		"outbox-relay.sidecar.native=false"); err != nil {
		t.Error(err)
	}
}

func wantRefused(t *testing.T, want string, args ...string) {
	t.Helper()
	_, err := helm(t, append([]string{"template", "shop", "outbox-relay"}, args...)...)
	if err == nil {
		t.Fatal("rendered")
	}
	if !strings.Contains(err.Error(), want) {
		t.Errorf("%v\ndoes not say %q", err, want)
	}
	for _, elsewhere := range []string{"tests/doctor.yaml", "prune.yaml"} {
		about := strings.Contains(strings.Join(args, ","), strings.TrimSuffix(elsewhere, ".yaml"))
		if strings.Contains(err.Error(), "templates/"+elsewhere) && !about {
			t.Errorf("%v\nis located in %s, which has nothing to do with it", err, elsewhere)
		}
	}
}
