package config

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/publisher"
)

const (
	redacted = "[redacted]"
	hidden   = "xxxxx" // in place of a password
)

// harmless are the connection parameters whose values are shown; the values of all others are hidden.
var harmless = map[string]bool{
	"host": true, "hostaddr": true, "port": true, "dbname": true, "database": true, "user": true, "service": true,
	"sslmode": true, "sslrootcert": true, "sslcert": true, "sslkey": true, "sslnegotiation": true,
	"connect_timeout":      true,
	"target_session_attrs": true, "application_name": true, "search_path": true, "options": true, "timezone": true,
	"heartbeat": true, "connection_timeout": true, "channel_max": true, // AMQP
}

// redact returns the part of a setting's text that may be shown. In case of doubt it shows nothing.
func (s Setting) redact(text string) string {
	switch kind := s.tag.Get("secret"); {
	case text == "", kind == "broker" && text == "stdout:":
		return text
	case kind == "broker", kind == "database" && isDatabaseURL(text):
		return redactURL(text)
	case kind == "database":
		return redactDSN(text)
	default:
		return redacted
	}
}

// isDatabaseURL distinguishes the two forms of a connection string as libpq does.
func isDatabaseURL(text string) bool {
	return strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://")
}

func redactURL(text string) string {
	u, err := splitURL(text)
	if err != nil {
		return redacted
	}
	user := ""
	if u.user != nil {
		user = url.User(u.user.Username()).String() + "@"
		if _, given := u.user.Password(); given {
			user = url.UserPassword(u.user.Username(), hidden).String() + "@"
		} else if protocol, known := brokerSchemes[u.scheme]; !isDatabaseURL(text) &&
			(!known || protocol == publisher.ProtocolNATS) { // there a user without a password is, or may be, a token
			user = hidden + "@"
		}
	}
	shown, separator := u.scheme+"://"+user+u.hosts+u.path, "?"
	for pair := range strings.SplitSeq(u.query, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err != nil || !harmless[plain] {
			value = hidden
		}
		shown += separator + name + "=" + value
		separator = "&"
	}
	return shown
}

// redactDSN shows where a keyword/value string leads, with what it leaves to the PG* variables.
func redactDSN(text string) string {
	c, err := pgconn.ParseConfig(text)
	if err != nil || !dsnStart.MatchString(text) {
		return redacted
	}
	return fmt.Sprintf("host=%s port=%d user=%s dbname=%s", c.Host, c.Port, c.User, c.Database)
}
