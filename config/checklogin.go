package config

import "github.com/outbox-relay/outbox-relay/publisher"

// checkLogin checks what tags cannot say about credentials: there is a source of tokens, and only one way to log in.
func checkLogin(d *Destination, s *scope) {
	mechanism, first := s.at("KAFKA_SASL_MECHANISM"), s.firstOf("amqp-oauth")
	s.needsToken(mechanism.text == MechanismOAuth, mechanism.key, "KAFKA_OAUTH_")
	s.needsToken(first.given, first.key, "AMQP_OAUTH_")
	s.badIf(first.given && d.AMQPMechanism != "" && d.AMQPMechanism != "PLAIN", "AMQP_SASL_MECHANISM",
		"does not use %s, which replaces a password; remove one of them", first.variable)
	cert, key := s.at("TLS_CERT"), s.at("TLS_KEY")
	s.badIf(d.AMQPMechanism == "EXTERNAL" && d.Broker.Scheme != "" && (!d.Broker.TLS || !cert.given),
		"AMQP_SASL_MECHANISM", "requires a client certificate; set %s and %s, usually as files, with an amqps:// URL",
		cert.variable, key.variable)
	_, password := d.Broker.User.Password()
	s.badIf(password && first.given && first.inherited == s.at("PUBLISH_URL").inherited, "PUBLISH_URL",
		"contains a password in addition to %s; keep one of them", first.variable)
	credential := s.firstOf("nats")
	s.badIf(d.Broker.Protocol == publisher.ProtocolNATS && d.Broker.User != nil && credential.given, "PUBLISH_URL",
		"contains a user in addition to %s; keep one of them", credential.variable)
	s.badIf(d.Broker.Protocol == publisher.ProtocolNATS && d.NATS.TLSFirst && !s.at("NATS_TLS_FIRST").inherited &&
		d.Broker.Scheme != "nats+tls", "NATS_TLS_FIRST", "has an effect with nats+tls:// only; write %s so, or remove "+
		"the setting", s.at("PUBLISH_URL").variable)
}

// needsToken checks, if tokens are asked for by the setting with a key, that an [OAuth] has a source of them.
func (s *scope) needsToken(asked bool, key, prefix string) {
	token, endpoint := s.at(prefix+"TOKEN"), s.at(prefix+"TOKEN_URL")
	s.badIf(asked && !token.given && !endpoint.given, key, "requires a token; set %s, or %s with client credentials",
		token.variable+fileSuffix, endpoint.variable)
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
