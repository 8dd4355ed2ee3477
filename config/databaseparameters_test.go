package config

import (
	"strings"
	"testing"
)

// Parameters of PostgreSQL and its own client are accepted; those of other drivers, misspelt ones and other forms are
// named, all at once and without a value.
func TestDatabaseParameters(t *testing.T) {
	t.Parallel()
	const url = "postgres://u:hush@db:5432/d?sslmode=disable&"
	for text, wants := range map[string][]string{
		url + "keepalives=1&keepalives_idle=30&keepalives_interval=5&keepalives_count=3&tcp_user_timeout=1000": nil,
		url + "load_balance_hosts=disable": nil,
		url + "gssencmode=disable&fallback_application_name=x&options=-c%20jit%3Doff&pool_max_conns=3":  nil,
		url + "statement_timeout=5s&DateStyle=German&search_path=a,b&role=o&app.tenant=7&lc_messages=C": nil,
		"host=db user=u password=hush dbname=d keepalives=1":                                            nil,
		url + "schema=hush&connection_limit=1&pgbouncer=true": {
			"connection_limit, pgbouncer, schema", "driver",
		},
		url + "gssencmode=require":                               {"gssencmode"},
		url + "serach_path=hush":                                 {"serach_path"},
		"host=db user=u password=hush dbname=d conect_timeout=3": {"conect_timeout"},
		"Host=db;Port=5432;Database=d;Username=u;Password=hush":  {"ADO.NET", "postgres://"},
		"Server=db;User Id=u;Password=hush;":                     {"ADO.NET"},
		"jdbc:postgresql://db:5432/d?user=u&password=hush":       {"JDBC", "postgres://"},
		"host=db user=u password='a;b'":                          nil,
		url + "default_query_exec_mode=hush":                     {"cannot be used: "},
		"host=db user=u pool_max_conns=5password=hush":           {"cannot be used: "}, // a space is missing
		"host=db user=u pool_max_conn_lifetime=5spassword=hush":  {"cannot be used: "},
	} {
		_, err := ParseDatabase(text)
		if (err == nil) != (wants == nil) || err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", text, err)
			continue
		}
		for _, want := range wants {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", text, err, want)
			}
		}
	}
}
