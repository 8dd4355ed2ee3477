package config

import (
	"errors"
	"net"
	"net/netip"
	"regexp"
	"strconv"
)

// forms check the texts of settings, by their keys. An error continues the sentence that begins with the variable's
// name, and does not contain the text.
var forms = map[string]func(text string) error{
	"DATABASE_URL":        checkDatabase,
	"DATABASE_DIRECT_URL": checkDatabase,
	"HTTP_ADDR":           checkAddress,
	"METRICS_ADDR":        checkAddress,
	"PPROF_ADDR": func(text string) error {
		address, err := netip.ParseAddrPort(text)
		return unless(err == nil && address.Addr().IsLoopback(), "must be a loopback address, 127.0.0.1:6060 or "+
			"[::1]:6060: profiles show what is in memory")
	},
	// A name with - and one with _ in its place have the same variables, so that the second of them gets no row.
	"DESTINATIONS": func(text string) error {
		return unless(namesPattern.MatchString(text) && !nonePattern.MatchString(text), "is not a list of names; "+
			"write lower-case letters, digits and single - or _, starting with a letter; none is reserved")
	},
	"CLOUDEVENTS_SOURCE":    matches(`^[^\s"]+$`, "is not a URI; write one without spaces, such as /shop/orders"),
	"TLS_CA":                checkPEM,
	"TLS_CERT":              checkPEM,
	"TLS_KEY":               checkPEM,
	"KAFKA_TIMESTAMP":       matches(`^(insert|now|column:.+)$`, "is not a time; write insert, now or column:NAME"),
	"KAFKA_OAUTH_TOKEN_URL": checkEndpoint,
	"AMQP_OAUTH_TOKEN_URL":  checkEndpoint,
	// RFC 7628, without auth, which holds the token
	"KAFKA_OAUTH_EXTENSIONS": matches(`^\s*[a-zA-Z]+=[!-+\--~ \t]+(\s*,\s*[a-zA-Z]+=[!-+\--~ \t]+)*\s*$`,
		"is not a list of extensions; write name=value, with only letters in the name"),
	"NATS_JS_DOMAIN": matches(`^[^\s.*>]+$`, "is not the name of a JetStream domain; remove space, dot, star or >"),
	// one or several tokens of a subject outside the server's own subjects
	"NATS_INBOX_PREFIX": matches(`^[^\s.*>$][^\s.*>]*(\.[^\s.*>]+)*$`, "is not a prefix of subjects; write tokens "+
		"without wildcards or a final dot, such as _INBOX_shop"),
	"NATS_STREAM": matches(`^[^\s.*>/\\]+$`, "is not the name of a stream; remove space, dot, star, > or slash"),
}

var (
	namesPattern  = regexp.MustCompile(`^\s*[a-z][a-z0-9]*([_-][a-z0-9]+)*(\s*,\s*[a-z][a-z0-9]*([_-][a-z0-9]+)*)*\s*$`)
	nonePattern   = regexp.MustCompile(`(^|,)\s*none\s*(,|$)`)
	checkPEM      = matches(`-----BEGIN `, "contains no PEM text; to name a file, add _FILE to the variable")
	checkEndpoint = matches(`^(?i:https?)://[^/?#@\s]+([/?#]\S*)?$`, "is not a URL of a token endpoint; write "+
		"https://host/path, without a user")
)

// checkAddress checks an address to listen on.
func checkAddress(text string) error {
	_, port, err := net.SplitHostPort(text)
	_, wrong := strconv.ParseUint(port, 10, 16)
	return unless(err == nil && wrong == nil, "is not an address; write host:port, or :9630 for all interfaces")
}

func checkDatabase(text string) error {
	_, err := ParseDatabase(text)
	return err
}

func matches(pattern, problem string) func(text string) error {
	fits := regexp.MustCompile(pattern)
	return func(text string) error { return unless(fits.MatchString(text), problem) }
}

func unless(fits bool, problem string) error {
	if fits {
		return nil
	}
	return errors.New(problem)
}
