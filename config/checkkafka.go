package config

import (
	"net/url"
	"regexp"
)

// extensionPattern is that of RFC 7628, without auth, which holds the token.
var extensionPattern = regexp.MustCompile(`^[a-zA-Z]+=[!-~ \t]+$`)

// checkKafkaLogin checks that a mechanism has the credentials that it needs, and that credentials have
// their mechanism.
func checkKafkaLogin(d *Destination, s *scope) {
	mechanism, user, password := s.origins["KAFKA_SASL_MECHANISM"], s.origins["KAFKA_SASL_USERNAME"], s.origins["KAFKA_SASL_PASSWORD"]
	// What is meant for all destinations may be of no use to one that has its own mechanism.
	meant := func(o origin) bool { return o.given && (!o.inherited || mechanism.inherited) }
	if d.Kafka.SASLMechanism == MechanismOAuth {
		for _, o := range []origin{user, password} {
			if meant(o) {
				s.bad("KAFKA_SASL_MECHANISM", "has no use for %s; remove one of them", o.variable)
			}
		}
		checkKafkaToken(d, s)
		return
	}
	for _, key := range []string{"TOKEN", "TOKEN_URL", "CLIENT_ID", "CLIENT_SECRET", "SCOPE", "EXTENSIONS"} {
		if o := s.origins["KAFKA_OAUTH_"+key]; meant(o) && !mechanism.broken {
			s.bad("KAFKA_OAUTH_"+key, "is for OAUTHBEARER; give %s as OAUTHBEARER, or remove it", mechanism.variable)
		}
	}
	switch {
	case mechanism.given && !user.given:
		s.bad("KAFKA_SASL_MECHANISM", "needs a user; give %s and %s", user.variable, password.variable)
	case user.given && !mechanism.given:
		s.bad("KAFKA_SASL_USERNAME", "needs a mechanism; give %s as PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", mechanism.variable)
	case user.given && !password.given:
		s.bad("KAFKA_SASL_USERNAME", "needs a password; give %s, usually as %s", password.variable, password.variable+fileSuffix)
	case password.given && !user.given:
		s.bad("KAFKA_SASL_PASSWORD", "needs a user; give %s", user.variable)
	}
}

// checkKafkaToken checks that there is one source of tokens and that it is complete.
func checkKafkaToken(d *Destination, s *scope) {
	token, endpoint := s.origins["KAFKA_OAUTH_TOKEN"], s.origins["KAFKA_OAUTH_TOKEN_URL"]
	id, secret, scope := s.origins["KAFKA_OAUTH_CLIENT_ID"], s.origins["KAFKA_OAUTH_CLIENT_SECRET"], s.origins["KAFKA_OAUTH_SCOPE"]
	switch {
	case token.given && endpoint.given:
		s.bad("KAFKA_OAUTH_TOKEN", "is a second source of tokens beside %s; keep one of them", endpoint.variable)
	case token.given:
		for _, o := range []origin{id, secret, scope} {
			if o.given {
				s.bad("KAFKA_OAUTH_TOKEN", "has no use for %s; remove one of them", o.variable)
			}
		}
	case !endpoint.given:
		s.bad("KAFKA_SASL_MECHANISM", "needs a token; give %s, or %s with %s and %s",
			token.variable+fileSuffix, endpoint.variable, id.variable, secret.variable)
	case !id.given || !secret.given:
		s.bad("KAFKA_OAUTH_TOKEN_URL", "needs client credentials; give %s and %s, usually as %s", id.variable, secret.variable,
			secret.variable+fileSuffix)
	}
	for _, extension := range d.Kafka.OAuth.Extensions {
		if !extensionPattern.MatchString(extension) {
			s.bad("KAFKA_OAUTH_EXTENSIONS", "holds %q, which is no extension; write name=value, the name of letters", extension)
		}
	}
	if u, err := url.Parse(d.Kafka.OAuth.TokenURL); endpoint.given &&
		(err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil) {
		s.bad("KAFKA_OAUTH_TOKEN_URL", "is no URL of a token endpoint; write https://host/path, without a user")
	}
}
