package config

import (
	"crypto/tls"
	"maps"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/profile"
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
		checkBackoff(d, s)
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
	kinds := map[string]string{"kafka": "Kafka", "nats": "NATS", "amqp": "AMQP", "tls": "TLS"}
	overTLS := b.TLS || strings.HasPrefix(d.AMQPManagement.value, "https://")
	with, values, _ := strings.Cut(o.with, "=")
	other := s.at(with)
	effective := slices.Contains(strings.Split(values, ","), other.text) || other.broken
	report := func(format string, args ...any) func() { return func() { s.bad(o.key, format, args...) } }
	switch {
	case b.Scheme == "": // there is no URL
	case o.scheme == "tls" && !overTLS && b.Scheme != schemeStdout:
		return report("has no effect without TLS; write %s with %s:// or remove the setting", ofURL,
			secureSchemes[b.Scheme])
	case o.scheme != "" && o.scheme != string(b.Protocol) && (o.scheme != "tls" || !overTLS):
		return report("is for %s, but %s is not; remove one of them", kinds[o.scheme], ofURL)
	case !effective && o.text != o.Default && (!o.inherited || other.inherited):
		return report("has no effect without %s=%s; set that, or remove the setting", other.variable,
			strings.ReplaceAll(values, ",", " or "))
	}
	return nil
}

// checkPairs checks that each setting is given that another one needs, and none that contradicts another one.
func (s *scope) checkPairs() {
	for _, o := range s.all {
		with, values, _ := strings.Cut(o.with, "=")
		s.badIf(o.tag.Get("must") != "" && !o.given && slices.Contains(strings.Split(values, ","), s.at(with).text), with,
			"requires %s; set it, usually as %s", o.variable, o.variable+fileSuffix)
		prefix := strings.TrimSuffix(o.key, o.tag.Get("envconfig"))
		for key := range strings.SplitSeq(o.tag.Get("needs"), ",") {
			other := s.at(prefix + key)
			s.badIf(o.given && key != "" && !other.given, o.key, "requires %s; set it, usually as %s", other.variable,
				other.variable+fileSuffix)
		}
		for key := range strings.SplitSeq(o.tag.Get("not"), ",") {
			other := s.at(prefix + key)
			s.badIf(o.given && other.given, o.key, "contradicts %s; remove one of them", other.variable)
		}
	}
}

// applyProfile fills in the defaults of a destination's profile.
func applyProfile(d *Destination, s *scope) {
	fallback := func(key string, into *string, value string) {
		if o := s.at(key); !o.given {
			o.text, *into = value, value
		}
	}
	fallback("TOPIC", &d.Topic, profile.Topic(d.Profile))
	fallback("AMQP_EXCHANGE", &d.AMQPExchange, profile.Exchange(d.Profile, d.Broker.Protocol))
}

// checkBackoff compares the pauses between retries.
func checkBackoff(d *Destination, s *scope) {
	if low, high := s.at("BACKOFF_MIN"), s.at("BACKOFF_MAX"); d.BackoffMin > d.BackoffMax && low.given {
		s.bad("BACKOFF_MIN", "is more than %s, which is %s; lower one or raise the other", high.variable, high.text)
	} else if d.BackoffMin > d.BackoffMax {
		s.bad("BACKOFF_MAX", "is less than %s, which is %s; raise one or lower the other", low.variable, low.text)
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
