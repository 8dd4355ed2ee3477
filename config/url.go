package config

import (
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

var (
	schemePattern = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.-]{0,19}$`)
	// what follows the host, with a parameter that has no value
	valueless = regexp.MustCompile(`^[^?]*\?(.*&)?[^=&]+(&|$)`)
)

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
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return nil, errors.New("contains a space or a control character; remove it, or percent-encode it in a password")
	case !ok || !schemePattern.MatchString(scheme):
		return nil, errors.New("is not a URL (quotes around it are part of the value); " + brokerForms)
	// With one of / ? # unescaped in a password, the apparent host is part of the password.
	case escape != nil, strings.ContainsAny(after, "@#"), valueless.MatchString(after),
		strings.Contains(first, "@") && strings.Contains(others, "@"):
		return nil, errors.New("cannot be read; write user:password@host1,host2 with one user, and in user names, " +
			"passwords and parameters % as %25, / as %2F, ? as %3F, # as %23, @ as %40, & as %26")
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
	return u, nil
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
		} else if !isDatabaseURL(text) { // a user without a password may be a token
			user = hidden + "@"
		}
	}
	query := parameter.ReplaceAllStringFunc(u.RawQuery, func(pair string) string {
		name, _, _ := strings.Cut(pair, "=")
		if slices.Contains(harmless, name) {
			return pair
		}
		return name + "=" + hidden
	})
	return strings.TrimSuffix(u.Scheme+"://"+user+u.Host+u.Path+"?"+query, "?")
}
