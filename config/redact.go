package config

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/outbox-relay/outbox-relay/publisher"
)

const (
	redacted = "[redacted]"
	hidden   = "xxxxx" // in place of a password
)

var parameterName = regexp.MustCompile(`^[a-zA-Z_]+$`)

// harmless are the connection parameters whose values are shown; the values of all others are hidden.
var harmless = map[string]bool{
	"host": true, "hostaddr": true, "port": true, "dbname": true, "database": true, "user": true, "service": true,
	"sslmode": true, "sslrootcert": true, "sslcert": true, "sslkey": true, "sslnegotiation": true, "connect_timeout": true,
	"target_session_attrs": true, "application_name": true, "search_path": true, "options": true, "timezone": true,
	"heartbeat": true, "connection_timeout": true, "channel_max": true, // AMQP
}

// redact returns the part of a setting's text that may be shown. In case of doubt it shows nothing.
func (s Setting) redact(text string) string {
	switch {
	case text == "":
		return ""
	case s.secret == "broker" && text == "stdout:":
		return text
	case s.secret == "broker":
		return redactURL(text)
	case s.secret == "database" && isDatabaseURL(text):
		return redactURL(text)
	case s.secret == "database":
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
	broker, known := brokerSchemes[u.scheme]
	var b strings.Builder
	b.WriteString(u.scheme + "://")
	if u.user != nil {
		switch {
		case u.pass != nil:
			b.WriteString(*u.user + ":" + hidden)
		case !isDatabaseURL(text) && (!known || broker.Protocol == publisher.ProtocolNATS): // a user without a password is a token
			b.WriteString(hidden)
		default:
			b.WriteString(*u.user)
		}
		b.WriteString("@")
	}
	b.WriteString(u.hosts + u.path)
	separator := "?"
	for pair := range strings.SplitSeq(u.query, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err != nil || !harmless[plain] {
			value = hidden
		}
		b.WriteString(separator + name + "=" + value)
		separator = "&"
	}
	return b.String()
}

// redactDSN redacts a keyword/value string. It parses the form as libpq does: blanks around the equals sign, values in single
// quotes, backslashes before quotes.
func redactDSN(text string) string {
	var shown []string
	for rest := strings.TrimSpace(text); rest != ""; rest = strings.TrimSpace(rest) {
		name, value, ok := strings.Cut(rest, "=")
		if !ok {
			return redacted
		}
		name = strings.TrimSpace(name)
		value = strings.TrimLeft(value, " \t\r\n\v\f")
		end, ok := valueEnd(value)
		if !ok || !parameterName.MatchString(name) {
			return redacted
		}
		if harmless[name] {
			shown = append(shown, name+"="+value[:end])
		} else {
			shown = append(shown, name+"="+hidden)
		}
		rest = value[end:]
	}
	return strings.Join(shown, " ")
}

// valueEnd returns where the first value of a keyword/value string ends.
func valueEnd(s string) (end int, ok bool) {
	quoted := strings.HasPrefix(s, "'")
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			i++
		case quoted && c == '\'' && i > 0:
			return i + 1, true
		case !quoted && strings.IndexByte(" \t\r\n\v\f", c) >= 0:
			return i, true
		}
	}
	return len(s), !quoted
}
