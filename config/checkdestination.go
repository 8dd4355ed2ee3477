package config

import (
	"crypto/tls"
	"maps"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/profile"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// checkDestinations checks what the tags cannot express about each destination, and that each setting has an effect. A
// setting without effect is an error, because it is meant for something: with OUTBOX_TLS_CA and no TLS, a connection
// would be open that was to be protected.
func checkDestinations(c *Config) {
	unused := map[string]func(){} // reports of problems, by variable; nil if a destination uses the variable
	for i := range c.Destinations {
		d := &c.Destinations[i]
		s := d.scope
		if d.PublishURL.IsSet() {
			var err error
			d.Broker, err = parseBroker(d.PublishURL.value, s.loader.schemes)
			s.badIf(err != nil, "PUBLISH_URL", "%v", err)
		}
		fillIn(d, s)
		s.checkPairs()
		checkPair(d, s)
		checkLogin(d, s)
		d.Broker.User = nil // it is read again at each login
		for _, o := range s.all {
			report, common := unused[o.variable]
			if useless := s.useless(o, d); o.given && o.text != "" && (!common || report != nil) {
				unused[o.variable] = useless
			}
		}
	}
	for _, variable := range slices.Sorted(maps.Keys(unused)) {
		if report := unused[variable]; report != nil { // a common setting may apply to only some of the destinations
			report()
		}
	}
}

// useless returns a function that reports why a setting for one kind of broker, or for one value of another setting,
// has no effect; nil if it has.
func (s *scope) useless(o *origin, d *Destination) func() {
	b, ofURL := d.Broker, s.at("PUBLISH_URL").variable
	names := map[string]string{"kafka": "Kafka", "nats": "NATS", "amqp": "AMQP", "tls": "TLS"}
	overTLS := b.TLS || strings.HasPrefix(d.AMQPManagement.value, "https://")
	scheme := o.tag.Get("scheme")
	other, values := s.condition(o)
	effective := slices.Contains(values, other.text) || other.broken
	report := func(format string, args ...any) func() { return func() { s.bad(o.key, format, args...) } }
	switch {
	case b.Scheme == "": // there is no URL
	case scheme == "tls" && !overTLS && b.Scheme != schemeStdout:
		return report("has no effect without TLS; write %s with %s:// or remove the setting", ofURL,
			secureSchemes[b.Scheme])
	case scheme != "" && scheme != string(b.Protocol) && (scheme != "tls" || !overTLS):
		return report("is for %s, but %s is not; remove one of them", names[scheme], ofURL)
	case !effective && o.text != o.Default && (!o.inherited || other.inherited):
		return report("has no effect without %s=%s; set that, or remove the setting", other.variable,
			strings.Join(values, " or "))
	}
	return nil
}

// condition returns another setting, and its values with which a setting has an effect: the tag with, KEY=VALUE,VALUE.
func (s *scope) condition(o *origin) (other *origin, values []string) {
	key, list, _ := strings.Cut(o.tag.Get("with"), "=")
	return s.at(key), strings.Split(list, ",")
}

// checkPairs checks that each setting is given that another one needs, and none that contradicts another one.
func (s *scope) checkPairs() {
	for _, o := range s.all {
		prefix := strings.TrimSuffix(o.key, o.tag.Get("envconfig"))
		other, values := s.condition(o)
		effective := slices.Contains(values, other.text)
		if effective && other.key != "" {
			s.require(other, prefix, o.tag.Get("must"))
		}
		if !effective || !o.given {
			continue
		}
		for keys := range strings.SplitSeq(o.tag.Get("needs"), ",") {
			s.require(o, prefix, keys)
		}
		for key := range strings.SplitSeq(o.tag.Get("not"), ",") {
			other := s.at(prefix + key)
			s.badIf(other.given, o.key, "contradicts %s; remove one of them", other.variable)
		}
	}
}

// require records a problem with a setting unless one of the settings is given that it needs, separated by |.
func (s *scope) require(o *origin, prefix, keys string) {
	var variables []string
	given := keys == ""
	for key := range strings.SplitSeq(keys, "|") {
		other := s.at(prefix + key)
		variables, given = append(variables, other.variable), given || other.given
	}
	s.badIf(!given, o.key, "requires %s; set it, best as %s", strings.Join(variables, " or "), variables[0]+fileSuffix)
}

// fillIn sets what follows from other settings, and the defaults of a destination's profile.
func fillIn(d *Destination, s *scope) {
	if o := s.at("TOPIC"); !o.given {
		d.Topic = profile.Topic(d.WireFormat)
		o.text = d.Topic
	}
	if o := s.at("AMQP_EXCHANGE"); !o.given && d.Broker.Protocol == publisher.ProtocolAMQP {
		d.AMQPExchange = profile.Exchange(d.WireFormat)
		o.text = d.AMQPExchange
	}
	if strings.ContainsAny(d.AMQPExchange, "{}") { // a template, which the relay fills in
		d.Exchange, d.AMQPExchange = d.AMQPExchange, ""
	}
	if d.Broker.Protocol == publisher.ProtocolKafka {
		_, d.TimeColumn, _ = strings.Cut(d.Kafka.Timestamp, ":")
	}
	d.Optional = !d.Required
}

// checkPair checks the client's certificate. A common mistake is the path of a file in place of its text.
func checkPair(d *Destination, s *scope) {
	cert, key := s.at("TLS_CERT"), s.at("TLS_KEY")
	if cert.given && key.given && !cert.broken && !key.broken {
		_, err := tls.X509KeyPair([]byte(d.TLS.Cert.value), []byte(d.TLS.Key.value))
		s.badIf(err != nil, "TLS_CERT", "and %s are not a pair of PEM texts; to name files, use %s and %s",
			key.variable, cert.variable+fileSuffix, key.variable+fileSuffix)
	}
}

// checkLogin checks what tags cannot say about credentials: there is only one way to log in.
func checkLogin(d *Destination, s *scope) {
	first := s.firstOf("amqp-oauth")
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

// firstOf returns the first setting of an exclusive group that is given.
func (s *scope) firstOf(group string) *origin {
	return s.first(func(o *origin) bool { return o.tag.Get("group") == group && o.given })
}
