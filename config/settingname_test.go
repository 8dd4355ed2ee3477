package config

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/setting"
)

// Each field that a library names in an error has a variable, and each variable in the map is a setting.
func TestSettingNames(t *testing.T) {
	t.Parallel()
	known, same := map[string]bool{}, map[string]bool{}
	for _, s := range Settings() {
		same[s.field] = true
		_, own, _ := strings.Cut(s.Name, ">_")
		known[own], known[strings.TrimPrefix(s.Name, Prefix)] = true, true
	}
	for field, keys := range fieldKeys {
		keys, _, _ = strings.Cut(keys, "=")
		for key := range strings.FieldsSeq(keys) {
			if !known[strings.TrimSuffix(key, "_FILE")] {
				t.Errorf("%s is for the setting %s, which does not exist", field, key)
			}
		}
	}
	named := map[string]bool{}
	for _, root := range []string{"../relay", "../publisher", "../internal", "../sql"} {
		for field, place := range fieldsNamed(t, root) {
			named[field] = true
			if fieldKeys[field] == "" && !same[field] {
				t.Errorf("%s: settingname.go has no variable for %s", place, field)
			}
		}
	}
	for field := range fieldKeys {
		if !named[field] {
			t.Errorf("settingname.go has a variable for %s, which nobody names", field)
		}
	}
}

// An error names the variables with which a destination was configured, and prefers its own ones to the common ones.
func TestSettingNamesOfDestination(t *testing.T) {
	for name, value := range map[string]string{
		"DESTINATIONS": "orders,audit,rest", "DESTINATION_ORDERS_TOPICS": "order.*", "DESTINATION_AUDIT_TOPICS": "audit.*",
		"DATABASE_URL": "postgres://h/d", "PUBLISH_URL": "kafka+tls://k", "KAFKA_SASL_MECHANISM": "PLAIN",
		"KAFKA_SASL_USERNAME": "u", "KAFKA_SASL_PASSWORD": "p", "DESTINATION_AUDIT_PUBLISH_URL": "nats://n",
		"DESTINATION_AUDIT_NATS_TOKEN": "t",
		"DESTINATION_REST_PUBLISH_URL": "amqp://a", "DESTINATION_REST_AMQP_OAUTH_TOKEN_URL": "https://id/token",
		"DESTINATION_REST_AMQP_OAUTH_CLIENT_ID": "c", "DESTINATION_REST_AMQP_OAUTH_CLIENT_SECRET": "s",
	} {
		t.Setenv(Prefix+name, value)
	}
	c, err := Load(NeedAll)
	if err != nil {
		t.Fatal(err)
	}
	const own = "OUTBOX_DESTINATION_"
	for _, test := range []struct {
		destination int
		field, want string
	}{
		{0, "Brokers", "OUTBOX_PUBLISH_URL"},
		{0, "TLS.RootCAs", own + "ORDERS_TLS_CA_FILE"},
		{0, "SASL.Credentials", "OUTBOX_KAFKA_SASL_USERNAME and OUTBOX_KAFKA_SASL_PASSWORD"},
		{1, "Servers", own + "AUDIT_PUBLISH_URL"},
		{1, "Auth", own + "AUDIT_NATS_TOKEN"},
		{0, "Auth", "OUTBOX_PUBLISH_URL"},
		{1, "Pool", "OUTBOX_DATABASE_URL"},
		{2, "Tokens", own + "REST_AMQP_OAUTH_CLIENT_ID and " + own + "REST_AMQP_OAUTH_CLIENT_SECRET"},
		{2, "Unrouted", own + "REST_AMQP_MANDATORY=false"},
		{2, "unknown", "unknown"},
	} {
		if got := setting.Names(c.Destinations[test.destination].SettingName).Of(test.field); got != test.want {
			t.Errorf("%s: got %s, want %s", test.field, got, test.want)
		}
	}
	if got := c.SettingName("Topic"); got != "OUTBOX_TOPIC" {
		t.Errorf("of no destination: got %s", got)
	}
}

// fieldsNamed returns the arguments of Names.Of below a directory, with the location of each.
func fieldsNamed(t *testing.T, root string) map[string]string {
	t.Helper()
	fields := map[string]string{}
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, is := n.(*ast.CallExpr)
			if !is || len(call.Args) != 1 {
				return true
			}
			if s, is := call.Fun.(*ast.SelectorExpr); !is || s.Sel.Name != "Of" || !calledNames(s.X) {
				return true
			}
			place := files.Position(call.Pos()).String()
			if literal, is := call.Args[0].(*ast.BasicLit); is {
				field, _ := strconv.Unquote(literal.Value)
				fields[field] = place
			} else {
				t.Errorf("%s: the field is not a literal", place)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return fields
}

// calledNames reports whether an expression is a variable or field called names.
func calledNames(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return strings.EqualFold(e.Name, "names")
	case *ast.SelectorExpr:
		return strings.EqualFold(e.Sel.Name, "names") || e.Sel.Name == "Names"
	}
	return false
}
