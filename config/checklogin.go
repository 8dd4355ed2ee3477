package config

import "github.com/outbox-relay/outbox-relay/publisher"

// checkLogin checks what the credentials need that are more than one setting.
func checkLogin(d *Destination, s *scope) {
	if d.Kafka.SASLMechanism == MechanismOAuth {
		s.checkToken("KAFKA_OAUTH_", "KAFKA_SASL_MECHANISM")
	}
	cert, key := s.at("TLS_CERT"), s.at("TLS_KEY")
	s.badIf(d.AMQPMechanism == "EXTERNAL" && d.Broker.Scheme != "" && (!d.Broker.TLS || !cert.given),
		"AMQP_SASL_MECHANISM", "requires a client certificate; set %s and %s, usually as files, with an amqps:// URL",
		cert.variable, key.variable)
	if first := s.firstOf("amqp-oauth"); first.given {
		s.checkToken("AMQP_OAUTH_", first.key)
		_, password := d.Broker.User.Password()
		s.badIf(password && first.inherited == s.at("PUBLISH_URL").inherited, "PUBLISH_URL",
			"contains a password in addition to %s; keep one of them", first.variable)
		s.badIf(d.AMQPMechanism != "" && d.AMQPMechanism != "PLAIN", "AMQP_SASL_MECHANISM",
			"does not use %s, which replaces a password; remove one of them", first.variable)
	}
	if d.Broker.Protocol != publisher.ProtocolNATS {
		return
	}
	credential := s.firstOf("nats")
	s.badIf(d.Broker.User != nil && credential.given, "PUBLISH_URL", "contains a user in addition to %s; keep one of them",
		credential.variable)
	s.badIf(d.NATS.TLSFirst && !s.at("NATS_TLS_FIRST").inherited && d.Broker.Scheme != "nats+tls", "NATS_TLS_FIRST",
		"has an effect with nats+tls:// only; write %s so, or remove the setting", s.at("PUBLISH_URL").variable)
}

// checkToken checks that there is a source of tokens and that it is complete, for the settings of an [OAuth] that begin
// with prefix. A missing source is reported for another setting.
func (s *scope) checkToken(prefix, asks string) {
	of := func(key string) *origin { return s.at(prefix + key) }
	token, endpoint := of("TOKEN"), of("TOKEN_URL")
	id, secret, assertion := of("CLIENT_ID"), of("CLIENT_SECRET"), of("CLIENT_ASSERTION")
	s.badIf(!token.given && !endpoint.given, asks, "requires a token; set %s, or %s with %s and %s",
		token.variable+fileSuffix, endpoint.variable, id.variable, secret.variable)
	s.badIf(endpoint.given && !assertion.given && !(id.given && secret.given), prefix+"TOKEN_URL",
		"requires client credentials; set %s and %s, usually as %s, or %s", id.variable, secret.variable,
		secret.variable+fileSuffix, assertion.variable+fileSuffix)
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
