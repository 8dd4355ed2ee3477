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
		var broken error
		if d.PublishURL.IsSet() {
			d.Broker, broken = parseBroker(d.PublishURL.value, s.loader.schemes)
		}
		applyProfile(d, s)
		longest := s.at("BACKOFF_MAX")
		s.badIf(d.BackoffMin > d.BackoffMax, "BACKOFF_MIN", "is more than %s, which is %s; lower one or raise the "+
			"other", longest.variable, longest.text)
		s.checkPairs()
		checkPair(d, s)
		checkLogin(d, s)
		d.Broker.User = nil // it is read again at each login
		if broken != nil {
			d.Broker = Broker{}
			s.bad("PUBLISH_URL", "%v", broken)
			continue
		}
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
	other, values := s.condition(o.with)
	effective := slices.Contains(values, other.text) || other.broken
	report := func(format string, args ...any) func() { return func() { s.bad(o.key, format, args...) } }
	switch {
	case b.Scheme == "": // there is no URL
	case o.scheme == "tls" && !overTLS && b.Scheme != schemeStdout:
		return report("has no effect without TLS; write %s with %s:// or remove the setting", ofURL,
			secureSchemes[b.Scheme])
	case o.scheme != "" && o.scheme != string(b.Protocol) && (o.scheme != "tls" || !overTLS):
		return report("is for %s, but %s is not; remove one of them", names[o.scheme], ofURL)
	case !effective && o.text != o.Default && (!o.inherited || other.inherited):
		return report("has no effect without %s=%s; set that, or remove the setting", other.variable,
			strings.Join(values, " or "))
	}
	return nil
}

// condition reads the form KEY=VALUE,VALUE of tags: another setting, and some of its values.
func (s *scope) condition(text string) (other *origin, values []string) {
	key, list, _ := strings.Cut(text, "=")
	return s.at(key), strings.Split(list, ",")
}

// checkPairs checks that each setting is given that another one needs, and none that contradicts another one.
func (s *scope) checkPairs() {
	for _, o := range s.all {
		if o.tag.Get("must") != "" && !o.given {
			other, values := s.condition(o.with)
			s.badIf(slices.Contains(values, other.text), other.key, "requires %s; set it, usually as %s", o.variable,
				o.variable+fileSuffix)
		}
		prefix := strings.TrimSuffix(o.key, o.tag.Get("envconfig"))
		for key := range strings.SplitSeq(o.tag.Get("needs"), ",") {
			var variables []string
			given := key == ""
			for one := range strings.SplitSeq(key, "|") {
				other := s.at(prefix + one)
				variables, given = append(variables, other.variable), given || other.given
			}
			s.badIf(o.given && !given, o.key, "requires %s; set it, usually as %s", strings.Join(variables, " or "),
				variables[0]+fileSuffix)
		}
		for key := range strings.SplitSeq(o.tag.Get("not"), ",") {
			other := s.at(prefix + key)
			s.badIf(o.given && other.given, o.key, "contradicts %s; remove one of them", other.variable)
		}
	}
}

// applyProfile fills in the defaults of a destination's profile.
func applyProfile(d *Destination, s *scope) {
	if o := s.at("TOPIC"); !o.given {
		d.Topic = profile.Topic(d.Profile)
		o.text = d.Topic
	}
	if o := s.at("AMQP_EXCHANGE"); !o.given && d.Broker.Protocol == publisher.ProtocolAMQP {
		d.AMQPExchange = profile.Exchange(d.Profile)
		o.text = d.AMQPExchange
	}
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
