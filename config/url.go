package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/publisher"
)

var (
	schemePattern = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.-]{0,19}$`)
	errNoURL      = errors.New("is not a URL")
	errQuoted     = errors.New("begins with a quote or a blank, which is part of the value here; remove it")
)

// quoted reports whether a value begins as no URL and no DSN does. Files of variables for containers keep quotes,
// unlike a shell.
func quoted(text string) bool {
	return strings.IndexAny(text, `"'`) == 0 || !isDatabaseURL(text) && isDatabaseURL(strings.TrimSpace(text))
}

// splitURL splits a URL into its parts. The host is a list of hosts with ports, separated by commas, and path and query
// are as they were written. The parts are not parsed by net/url, which refuses some lists of hosts, and whose errors
// print the URL with the password. The errors contain no part of the text, which may be a misplaced password.
func splitURL(text string) (*url.URL, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	authority, after := rest, ""
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority, after = rest[:end], rest[end:]
	}
	first, others, _ := strings.Cut(authority, ",")
	at := strings.LastIndexByte(authority, '@')
	switch _, escape := url.PathUnescape(authority[:max(at, 0)] + after); { // the zone of an address follows a %, too
	case quoted(text):
		return nil, errQuoted
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return nil, errors.New("contains a space or a control character; remove it, or percent-encode it in a password")
	case !ok || !schemePattern.MatchString(scheme):
		return nil, errNoURL
	// In that case a password contains one of / ? # unescaped, and the apparent host is part of the password.
	case strings.ContainsAny(after, "@#"):
		return nil, errors.New("has an @ or # after its host; in user names and passwords, write / as %2F, ? as %3F, " +
			"# as %23 and @ as %40")
	case strings.Contains(first, "@") && strings.Contains(others, "@"):
		return nil, errors.New("names a user twice; write user:password@host1,host2, and in a password @ as %40")
	case escape != nil:
		return nil, errors.New("has a % that does not start a percent-encoded character; write % as %25")
	}
	u := &url.URL{Scheme: strings.ToLower(scheme), Host: authority[at+1:]}
	if at >= 0 {
		name, password, given := strings.Cut(authority[:at], ":")
		name, _ = url.PathUnescape(name)
		password, _ = url.PathUnescape(password)
		if u.User = url.User(name); given {
			u.User = url.UserPassword(name, password)
		}
	}
	u.Path, u.RawQuery, _ = strings.Cut(after, "?")
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		if pair != "" && !strings.Contains(pair, "=") {
			return nil, errors.New("has a parameter without a value; in a password, write & as %26")
		}
	}
	return u, nil
}

// splitHosts splits a comma-separated list of hosts. Those without a port get the usual one, unless it is empty.
func splitHosts(hosts, usual string) (all []string, err error) {
	for host := range strings.SplitSeq(hosts, ",") {
		name := host
		if colon := strings.LastIndexByte(host, ':'); colon > strings.LastIndexByte(host, ']') {
			before, port, err := net.SplitHostPort(host)
			if err != nil {
				return nil, errors.New("has a host that cannot be parsed; write host:port, with IPv6 addresses in " +
					"brackets")
			}
			if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
				return nil, errors.New("has a port that is not a number from 1 to 65535")
			}
			name = before
		} else if usual != "" {
			host += ":" + usual
		}
		if name == "" {
			return nil, errors.New("names no host; write host:port after the //")
		}
		all = append(all, host)
	}
	return all, nil
}

const (
	redacted = "[redacted]"
	hidden   = "xxxxx" // in place of a password
)

// harmless are the connection parameters whose values are shown; the values of all others are hidden.
var harmless = strings.Fields("host hostaddr port dbname database user service sslmode sslrootcert sslcert sslkey " +
	"sslnegotiation connect_timeout target_session_attrs application_name search_path options timezone " +
	"heartbeat connection_timeout channel_max") // the last three are AMQP's

// parameter matches each parameter of a query.
var parameter = regexp.MustCompile(`[^&]+`)

// redact returns the part of a setting's text that may be shown. In case of doubt it shows nothing.
func (s Setting) redact(text string) string {
	switch kind := s.tag.Get("secret"); {
	case text == "", kind == "", kind == "broker" && text == "stdout:":
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
	if u.User != nil {
		user = url.User(u.User.Username()).String() + "@"
		if _, given := u.User.Password(); given {
			user = url.UserPassword(u.User.Username(), hidden).String() + "@"
		} else if protocol, known := brokerSchemes[u.Scheme]; !isDatabaseURL(text) &&
			(!known || protocol == publisher.ProtocolNATS) { // there a user without a password is, or may be, a token
			user = hidden + "@"
		}
	}
	query := parameter.ReplaceAllStringFunc(u.RawQuery, func(pair string) string {
		name, _, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err == nil && slices.Contains(harmless, plain) {
			return pair
		}
		return name + "=" + hidden
	})
	return strings.TrimSuffix(u.Scheme+"://"+user+u.Host+u.Path+"?"+query, "?")
}

// redactDSN shows where a keyword/value string leads, with what it leaves to the PG* variables.
func redactDSN(text string) string {
	c, err := pgconn.ParseConfig(text)
	if err != nil || !dsnStart.MatchString(text) {
		return redacted
	}
	return fmt.Sprintf("host=%s port=%d user=%s dbname=%s", c.Host, c.Port, c.User, c.Database)
}
