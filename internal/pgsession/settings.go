package pgsession

import (
	_ "embed" // for the list
	"maps"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox-relay/sql"
)

//go:embed settings.txt
var list string

// A setting is what the relay does about a setting or parameter of its sessions.
type setting struct {
	name, value string
	given       bool // the relay gives the value, otherwise the session keeps its own
	unsent      bool // no server is told of it
}

func (s setting) named(name string) bool { return strings.EqualFold(s.name, name) } // as PostgreSQL compares names

// settings returns what was decided about each setting.
func settings() (all []setting) {
	for line := range strings.Lines(list) {
		names, value, given := strings.Cut(strings.TrimSpace(line), "=")
		if strings.HasPrefix(names, "#") {
			continue
		}
		names, unsent := strings.CutPrefix(names, "- ")
		for _, name := range strings.Fields(names) {
			all = append(all, setting{name, strings.TrimSpace(value), given, unsent})
		}
	}
	return all
}

// Decided reports whether it was decided what the relay does about a setting of a session. Settings of extensions,
// which contain a dot, concern only what the extension does in the table's triggers.
func Decided(name string) bool {
	return strings.Contains(name, ".") || slices.ContainsFunc(settings(), func(s setting) bool { return s.named(name) })
}

// Unknown returns the parameters of a connection, from its URL or the environment, that are neither settings of
// PostgreSQL nor words of its clients: those of another program's driver, or spelling mistakes. A server would refuse
// each connection because of them.
func Unknown(parameters map[string]string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(parameters)), func(name string) bool {
		asked := name == "gssencmode" && parameters[name] == "require" // which pgx does not support
		return !asked && (Decided(name) || strings.HasPrefix(name, "pool_"))
	})
}

// change returns the statement that gives the relay's settings to the session of a server's process, or only to the
// transaction for null.
func change(process string) string {
	var names, values []string // without quotes and backslashes
	for _, s := range settings() {
		if s.given {
			names, values = append(names, s.name), append(values, s.value)
		}
	}
	array := func(texts []string) string { return sql.Literal(`{"` + strings.Join(texts, `","`) + `"}`) }
	return sql.Text("session.sql", map[string]string{
		"names": array(names), "values": array(values), "process": process + "::bigint",
	})
}
