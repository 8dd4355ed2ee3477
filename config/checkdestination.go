package config

import (
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
		checkLogin(d, s)
		d.Broker.User = nil // it is read again at each login
		for _, o := range s.all {
			report, common := unused[o.variable]
			if o.given && o.text != "" && o.text != o.Default && (!common || report != nil) {
				unused[o.variable] = s.useless(o, d)
			}
		}
	}
	for _, variable := range slices.Sorted(maps.Keys(unused)) {
		if report := unused[variable]; report != nil { // a common setting may apply to only some of the destinations
			report()
		}
	}
}

// brokerNames are the names of what settings are for, in texts, by the tag scheme.
var brokerNames = map[string]string{
	"kafka": "Kafka", "nats": "NATS", "amqp": "AMQP", "tls": "TLS (" + strings.Join(secureSchemes, ", ") + ")",
}

// useless returns a function that reports why a setting for some brokers, or for one value of another setting, has no
// effect; nil if it has.
func (s *scope) useless(o *origin, d *Destination) func() {
	if d.Broker.Scheme == "" { // there is no URL
		return nil
	}
	overTLS := d.Broker.TLS || strings.HasPrefix(d.AMQPManagement.value, "https://")
	for scheme := range strings.SplitSeq(o.tag.Get("scheme"), ",") {
		if scheme != "" && scheme != string(d.Broker.Protocol) && (scheme != "tls" || !overTLS) {
			return func() {
				s.bad(o.key, "is for %s, but %s is not; change the URL, or remove the setting", brokerNames[scheme],
					s.at("PUBLISH_URL").variable)
			}
		}
	}
	other, values := s.condition(o)
	if slices.Contains(values, other.text) || other.broken || o.inherited && !other.inherited {
		return nil
	}
	return func() {
		s.bad(o.key, "has no effect without %s=%s; set that, or remove the setting", other.variable,
			strings.Join(values, " or "))
	}
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

// checkLogin checks that there is only one way to log in. A credential of the destination's own takes precedence over a
// user in a common URL.
func checkLogin(d *Destination, s *scope) {
	credential := s.first(func(o *origin) bool {
		return o.given && o.tag.Get("group") != "" && o.tag.Get("scheme") == string(d.Broker.Protocol)
	})
	precedes := !credential.inherited && s.at("PUBLISH_URL").inherited
	s.badIf(d.Broker.User != nil && credential.given && !precedes, "PUBLISH_URL",
		"contains a user in addition to %s; keep one of them", credential.variable)
}
