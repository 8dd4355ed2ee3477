package pgsession

import (
	"maps"
	"slices"
	"strings"
)

// ignored are parameters of libpq, PostgreSQL's own client, that mean nothing to the relay: it looks after its
// connections itself, and tries several hosts in their order. Secrets are shared by programs, so they are no mistake.
const ignored = "keepalives keepalives_idle keepalives_interval keepalives_count tcp_user_timeout load_balance_hosts " +
	"gssdelegation gsslib sslcompression sslkeylogfile fallback_application_name authtype tty"

// Unknown returns the parameters of a connection, from its URL or the environment, that are neither settings of
// PostgreSQL nor words of its clients: those of another program's driver, or spelling mistakes. A server would refuse
// each connection because of them.
func Unknown(parameters map[string]string) []string {
	// pg_settings does not list role and session_authorization, which a connection may set as well.
	known := append(strings.Fields(ignored), "role", "session_authorization", "options",
		"description_cache_capacity", "statement_cache_capacity", "default_query_exec_mode")
	return slices.DeleteFunc(slices.Sorted(maps.Keys(parameters)), func(name string) bool {
		harmless := name == "gssencmode" && parameters[name] != "require"
		return harmless || slices.Contains(known, name) || strings.HasPrefix(name, "pool_") || Decided(name)
	})
}
