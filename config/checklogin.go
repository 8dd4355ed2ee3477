package config

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// extensionPattern is the pattern of RFC 7628, without auth, which holds the token.
var extensionPattern = regexp.MustCompile(`^[a-zA-Z]+=[!-~ \t]+$`)

// checkKafkaLogin checks that a mechanism has the credentials that it needs, and that credentials have their mechanism.
func checkKafkaLogin(d *Destination, s *scope) {
	own, mechanism := d.Kafka.SASLMechanism, s.at("KAFKA_SASL_MECHANISM")
	user, password := s.at("KAFKA_SASL_USERNAME"), s.at("KAFKA_SASL_PASSWORD")
	// A setting for all destinations may be useless to a destination with its own mechanism.
	meant := func(o *origin) bool { return o.given && (!o.inherited || mechanism.inherited) }
	tokens := own == MechanismOAuth || own == MechanismIAM
	for _, o := range []*origin{user, password} {
		s.badIf(tokens && meant(o), "KAFKA_SASL_MECHANISM", "does not use %s; remove one of them", o.variable)
	}
	for _, extension := range d.Kafka.OAuthExtensions {
		s.badIf(own == MechanismOAuth && !extensionPattern.MatchString(extension), "KAFKA_OAUTH_EXTENSIONS",
			"contains %q, which is not an extension; write name=value, with only letters in the name", extension)
	}
	switch {
	case own == MechanismOAuth:
		s.checkToken("KAFKA_OAUTH_", "KAFKA_SASL_MECHANISM")
	case own == MechanismIAM:
	case mechanism.given && !user.given:
		s.bad("KAFKA_SASL_MECHANISM", "requires a user; set %s and %s", user.variable, password.variable)
	case user.given && !mechanism.given:
		s.bad("KAFKA_SASL_USERNAME", "requires a mechanism; set %s to PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512",
			mechanism.variable)
	case user.given && !password.given:
		s.bad("KAFKA_SASL_USERNAME", "requires a password; set %s, usually as %s", password.variable,
			password.variable+fileSuffix)
	case password.given && !user.given:
		s.bad("KAFKA_SASL_PASSWORD", "requires a user; set %s", user.variable)
	}
}

// checkToken checks that there is one source of tokens and that it is complete, for the settings of an [OAuth] that
// begin with prefix. A missing source is reported for another setting.
func (s *scope) checkToken(prefix, asks string) {
	of := func(key string) *origin { return s.at(prefix + key) }
	token, endpoint := of("TOKEN"), of("TOKEN_URL")
	id, secret, assertion := of("CLIENT_ID"), of("CLIENT_SECRET"), of("CLIENT_ASSERTION")
	switch {
	case token.given && endpoint.given:
		s.bad(prefix+"TOKEN", "is a second source of tokens in addition to %s; keep one of them", endpoint.variable)
	case token.given:
		for _, other := range []*origin{id, secret, assertion, of("SCOPE")} {
			s.badIf(other.given, prefix+"TOKEN", "does not use %s; remove one of them", other.variable)
		}
	case !endpoint.given:
		s.bad(asks, "requires a token; set %s, or %s with %s and %s", token.variable+fileSuffix, endpoint.variable,
			id.variable, secret.variable)
	case secret.given && assertion.given:
		s.bad(prefix+"CLIENT_SECRET", "is a second credential in addition to %s; keep one of them", assertion.variable)
	case !assertion.given && (!id.given || !secret.given):
		s.bad(prefix+"TOKEN_URL", "requires client credentials; set %s and %s, usually as %s, or %s", id.variable,
			secret.variable, secret.variable+fileSuffix, assertion.variable+fileSuffix)
	}
	u, err := url.Parse(endpoint.text)
	s.badIf(endpoint.given && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil),
		prefix+"TOKEN_URL", "is not a URL of a token endpoint; write https://host/path, without a user")
}

// checkAMQPLogin checks that a login with a certificate has one, and that a login with tokens has no password as well.
func checkAMQPLogin(d *Destination, s *scope) {
	cert, key, mechanism := s.at("TLS_CERT"), s.at("TLS_KEY"), s.at("AMQP_SASL_MECHANISM")
	s.badIf(d.AMQPMechanism == "EXTERNAL" && d.Broker.Scheme != "" && (!d.Broker.TLS || !cert.given),
		"AMQP_SASL_MECHANISM",
		"requires a client certificate; set %s and %s, usually as files, with an amqps:// URL", cert.variable,
		key.variable)
	first := s.firstOf("amqp-oauth")
	if !first.given {
		return
	}
	s.checkToken("AMQP_OAUTH_", first.key)
	s.badIf(d.Broker.HasPass && first.inherited == s.at("PUBLISH_URL").inherited, "PUBLISH_URL",
		"contains a password in addition to %s; keep one of them", first.variable)
	s.badIf(mechanism.given && d.AMQPMechanism != "PLAIN", "AMQP_SASL_MECHANISM",
		"does not use %s, which replaces a password; remove one of them", first.variable)
}

// firstOf returns the first setting of an exclusive group that is given.
func (s *scope) firstOf(group string) *origin {
	for _, o := range s.all {
		if o.exclusive == group && o.given {
			return o
		}
	}
	return &origin{}
}

// blank reports whether a character is a space or a control character.
func blank(r rune) bool { return r <= ' ' }

// inboxPrefix is one or several tokens of a subject outside the server's own subjects.
var inboxPrefix = regexp.MustCompile(`^[^\s.*>$][^\s.*>]*(\.[^\s.*>]+)*$`)

// checkNATS checks the credentials, of which there may be one kind, and the settings of JetStream.
func checkNATS(d *Destination, s *scope) {
	credential := s.firstOf("nats")
	for _, o := range s.all {
		s.badIf(o.exclusive == "nats" && o.given && o != credential, o.key,
			"is a second credential in addition to %s; keep one of them", credential.variable)
	}
	b := d.Broker
	if b.Protocol != publisher.ProtocolNATS {
		return
	}
	s.badIf(b.HasUser && credential.given, "PUBLISH_URL", "contains a user in addition to %s; keep one of them",
		credential.variable)
	first := d.NATS.TLSFirst && !s.at("NATS_TLS_FIRST").inherited
	s.badIf(first && b.WebSocket(), "NATS_TLS_FIRST", "has no effect over WebSocket, where TLS always comes first; "+
		"remove it")
	s.badIf(first && !b.WebSocket() && !b.TLS, "NATS_TLS_FIRST", "has no effect without TLS; write %s with %s://",
		s.at("PUBLISH_URL").variable, secureSchemes[b.Scheme])
	s.badIf(strings.ContainsAny(d.NATS.Domain, ".*>") || strings.ContainsFunc(d.NATS.Domain, blank), "NATS_JS_DOMAIN",
		"is not the name of a JetStream domain; it must not contain a space, dot, star or >")
	prefix := d.NATS.InboxPrefix
	s.badIf(prefix != "" && (len(prefix) > 128 || !inboxPrefix.MatchString(prefix)), "NATS_INBOX_PREFIX",
		"is not a prefix of subjects; write at most 128 characters without wildcards or a final dot, such as "+
			"_INBOX_shop")
	s.badIf(strings.ContainsFunc(d.NATS.MsgIDPrefix, func(r rune) bool { return r <= ' ' || r > '~' }),
		"NATS_MSG_ID_PREFIX",
		"contains a space or a character that is not ASCII; write a name such as shop or shop.eu")
	s.badIf(strings.ContainsAny(d.NATS.Stream, " .*>/\\"), "NATS_STREAM",
		"is not the name of a stream; it must not contain a space, dot, star, > or slash")
}
