package config

import (
	"errors"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// urlParts are the parts of a URL. They are not parsed by net/url, which refuses some lists of hosts, and whose errors
// print the URL with the password.
type urlParts struct {
	scheme string
	user   *url.Userinfo // nil if there is none
	hosts  string        // comma-separated, with ports
	path   string
	query  string
}

var (
	schemePattern = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.-]{0,19}$`)
	errNoURL      = errors.New("is not a URL")
	errQuoted     = errors.New("begins with a quote or a blank, which is part of the value here; remove it, also at " +
		"the end")
)

// quoted reports whether a value begins as no URL and no DSN does. Files of variables for containers keep quotes,
// unlike a shell.
func quoted(text string) bool {
	return strings.IndexAny(text, `"'`) == 0 || !isDatabaseURL(text) && isDatabaseURL(strings.TrimSpace(text))
}

// splitURL splits a URL into its parts. Its errors contain no part of the text, which may be a misplaced password.
func splitURL(text string) (u urlParts, err error) {
	scheme, rest, ok := strings.Cut(text, "://")
	authority, after := rest, ""
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority, after = rest[:end], rest[end:]
	}
	first, others, _ := strings.Cut(authority, ",")
	at := strings.LastIndexByte(authority, '@')
	switch _, escape := url.PathUnescape(authority[:max(at, 0)] + after); { // the zone of an address follows a %, too
	case quoted(text):
		return u, errQuoted
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return u, errors.New("contains a space or a control character; remove it, or percent-encode it in a password")
	case !ok || !schemePattern.MatchString(scheme):
		return u, errNoURL
	// In that case a password contains one of / ? # unescaped, and the apparent host is part of the password.
	case strings.ContainsAny(after, "@#"):
		return u, errors.New("has an @ or # after its host; in user names and passwords, write / as %2F, ? as %3F, " +
			"# as %23 and @ as %40")
	case strings.Contains(first, "@") && strings.Contains(others, "@"):
		return u, errors.New("names a user for several hosts; write the user once, before the first host: " +
			"user:password@host1,host2, and in a password @ as %40")
	case escape != nil:
		return u, errors.New("has a % that does not start a percent-encoded character; write % as %25")
	}
	u = urlParts{scheme: strings.ToLower(scheme), hosts: authority[at+1:]}
	if at >= 0 {
		name, password, given := strings.Cut(authority[:at], ":")
		name, _ = url.PathUnescape(name)
		password, _ = url.PathUnescape(password)
		if u.user = url.User(name); given {
			u.user = url.UserPassword(name, password)
		}
	}
	u.path, u.query, _ = strings.Cut(after, "?")
	for pair := range strings.SplitSeq(u.query, "&") {
		if pair != "" && !strings.Contains(pair, "=") {
			return u, errors.New("has a parameter without a value; in a password, write & as %26")
		}
	}
	return u, nil
}

// checkHosts checks a comma-separated list of hosts with optional ports.
func checkHosts(hosts string) error {
	for host := range strings.SplitSeq(hosts, ",") {
		name := host
		if colon := strings.LastIndexByte(host, ':'); colon > strings.LastIndexByte(host, ']') {
			before, port, err := net.SplitHostPort(host)
			if err != nil {
				return errors.New("has a host that cannot be parsed; write host:port, with IPv6 addresses in brackets")
			}
			if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
				return errors.New("has a port that is not a number from 1 to 65535")
			}
			name = before
		}
		if name == "" {
			return errors.New("names no host; write host:port after the //")
		}
	}
	return nil
}
