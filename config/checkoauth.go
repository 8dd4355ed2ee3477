package config

import "net/url"

// oauthKeys are the suffixes of the settings in an [OAuth].
var oauthKeys = []string{"TOKEN", "TOKEN_URL", "CLIENT_ID", "CLIENT_SECRET", "CLIENT_ASSERTION", "SCOPE"}

// checkToken checks that there is one source of tokens and that it is complete. Its settings begin with prefix. A missing
// source is reported for another setting.
func checkToken(o OAuth, prefix, asks string, s *scope) {
	token, endpoint := s.origins[prefix+"TOKEN"], s.origins[prefix+"TOKEN_URL"]
	id, secret, assertion := s.origins[prefix+"CLIENT_ID"], s.origins[prefix+"CLIENT_SECRET"], s.origins[prefix+"CLIENT_ASSERTION"]
	switch {
	case token.given && endpoint.given:
		s.bad(prefix+"TOKEN", "is a second source of tokens in addition to %s; keep one of them", endpoint.variable)
	case token.given:
		for _, other := range []origin{id, secret, assertion, s.origins[prefix+"SCOPE"]} {
			if other.given {
				s.bad(prefix+"TOKEN", "does not use %s; remove one of them", other.variable)
			}
		}
	case !endpoint.given:
		s.bad(asks, "requires a token; set %s, or %s with %s and %s",
			token.variable+fileSuffix, endpoint.variable, id.variable, secret.variable)
	case secret.given && assertion.given:
		s.bad(prefix+"CLIENT_SECRET", "is a second credential in addition to %s; keep one of them", assertion.variable)
	case !assertion.given && (!id.given || !secret.given):
		s.bad(prefix+"TOKEN_URL", "requires client credentials; set %s and %s, usually as %s, or %s", id.variable, secret.variable,
			secret.variable+fileSuffix, assertion.variable+fileSuffix)
	}
	if u, err := url.Parse(o.TokenURL.value); endpoint.given &&
		(err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil) {
		s.bad(prefix+"TOKEN_URL", "is not a URL of a token endpoint; write https://host/path, without a user")
	}
}

// checkAMQPLogin checks that a login with tokens has no password as well.
func checkAMQPLogin(d *Destination, s *scope) {
	first := origin{}
	for _, key := range oauthKeys {
		if o := s.origins["AMQP_OAUTH_"+key]; o.given && !first.given {
			first = o
			checkToken(OAuth(d.AMQPOAuth), "AMQP_OAUTH_", "AMQP_OAUTH_"+key, s)
		}
	}
	if !first.given {
		return
	}
	if d.Broker.HasPass && first.inherited == s.origins["PUBLISH_URL"].inherited {
		s.bad("PUBLISH_URL", "contains a password in addition to %s; keep one of them", first.variable)
	}
	if o := s.origins["AMQP_SASL_MECHANISM"]; o.given && d.AMQPMechanism != "PLAIN" {
		s.bad("AMQP_SASL_MECHANISM", "does not use %s, which replaces a password; remove one of them", first.variable)
	}
}
