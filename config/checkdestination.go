package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/template"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// checkDestinations checks what the tags cannot express about each destination.
func checkDestinations(cfg *Config, scopes []*scope) {
	unused := map[string]Problem{}
	used := map[string]bool{}
	for i, s := range scopes {
		d := &cfg.Destinations[i]
		var broken error
		if d.PublishURL.IsSet() {
			d.Broker, broken = parseBroker(d.PublishURL.value, s.loader.schemes)
			d.Broker.User, d.Broker.Password = "", "" // they are read again at each login
		}
		applyProfile(d, s)
		checkPublishing(d, s)
		checkTLS(d, s)
		checkCredentials(d, s)
		if broken != nil {
			d.Broker = Broker{}
			s.bad("PUBLISH_URL", "%s", broken)
		} else if d.PublishURL.IsSet() {
			s.sortUse(d, unused, used)
		}
	}
	for _, variable := range slices.Sorted(maps.Keys(unused)) {
		// A global setting may apply to only some of the destinations.
		if !used[variable] {
			scopes[0].loader.add(unused[variable])
		}
	}
}

// sortUse records which of the settings for one kind of broker the destination's broker uses.
func (s *scope) sortUse(d *Destination, unused map[string]Problem, used map[string]bool) {
	b := d.Broker
	for _, setting := range s.settings {
		o := s.origins[setting.key]
		if setting.scheme == "" || !o.given || o.text == "" {
			continue
		}
		url := s.origins["PUBLISH_URL"].variable
		switch {
		case setting.scheme == string(b.Protocol), setting.scheme == "tls" && (b.TLS || d.managementTLS()):
			used[o.variable] = true
		case setting.scheme == "tls" && b.Scheme != schemeStdout:
			unused[o.variable] = Problem{
				Variable: o.variable,
				Text:     fmt.Sprintf("has no effect without TLS; write %s with %s:// or remove the setting", url, secureSchemes[b.Scheme]),
			}
		default:
			kind := map[string]string{"kafka": "Kafka", "nats": "NATS", "amqp": "AMQP", "tls": "TLS"}[setting.scheme]
			unused[o.variable] = Problem{Variable: o.variable, Text: fmt.Sprintf("is for %s, but %s is not; remove one of them", kind, url)}
		}
	}
}

func checkPublishing(d *Destination, s *scope) {
	for _, pattern := range d.Topics {
		if strings.TrimPrefix(pattern, "!") == "" {
			s.bad("TOPICS", "contains the empty pattern %q; write topics, with * for any text and ! before the topics to exclude", pattern)
		}
	}
	if _, err := template.Parse(d.Topic); err != nil {
		s.bad("TOPIC", "%s", err)
	}
	if d.BackoffMin > d.BackoffMax {
		low, high := s.origins["BACKOFF_MIN"], s.origins["BACKOFF_MAX"]
		if low.given {
			s.bad("BACKOFF_MIN", "is more than %s, which is %s; lower one or raise the other", high.variable, high.text)
		} else {
			s.bad("BACKOFF_MAX", "is less than %s, which is %s; raise one or lower the other", low.variable, low.text)
		}
	}
	if d.Broker.Scheme != "" && d.AMQPMechanism == "EXTERNAL" && (!d.Broker.TLS || !s.origins["TLS_CERT"].given) {
		s.bad("AMQP_SASL_MECHANISM", "requires a client certificate; set %s and %s, usually as files, with an amqps:// URL",
			s.origins["TLS_CERT"].variable, s.origins["TLS_KEY"].variable)
	}
	if t := d.Kafka.Timestamp; t != timestampInsert && t != TimestampNow && d.Kafka.TimestampColumn() == "" {
		s.bad("KAFKA_TIMESTAMP", "is not a timestamp of a record; write insert, now or column:NAME")
	}
	if err := checkManagement(d.AMQPManagement.value); err != nil {
		s.bad("AMQP_MANAGEMENT_URL", "%s", err)
	}
	if _, err := template.Parse(d.AMQPExchange); err != nil {
		s.bad("AMQP_EXCHANGE", "%s", err)
	} else if len(d.AMQPExchange) > 255 && !strings.Contains(d.AMQPExchange, "{") {
		s.bad("AMQP_EXCHANGE", "is too long; AMQP names have at most 255 bytes")
	}
}

// checkManagement checks the URL of RabbitMQ's management interface. The error contains no part of it.
func checkManagement(text string) error {
	if text == "" {
		return nil
	}
	u, err := splitURL(text)
	if errors.Is(err, errNoURL) || err == nil && (u.scheme != "http" && u.scheme != "https" || u.query != "") {
		return errors.New("is not a URL of RabbitMQ's management interface; write http://host:15672 or https://host:15671, with user:password@ " +
			"before the host unless they are those of the publish URL")
	} else if err != nil {
		return err
	}
	if strings.Contains(u.hosts, ",") {
		return errors.New("names several hosts; name one, because each node reports the whole cluster")
	}
	if _, err := url.Parse(text); err != nil {
		return errors.New("cannot be parsed; percent-encode special characters in user and password")
	}
	return checkHosts(u.hosts)
}

// managementTLS reports whether the management interface is reached with TLS.
func (d *Destination) managementTLS() bool {
	return strings.HasPrefix(d.AMQPManagement.value, "https://")
}

func checkTLS(d *Destination, s *scope) {
	if ca := d.TLS.CA; ca.IsSet() && !x509.NewCertPool().AppendCertsFromPEM([]byte(ca.value)) {
		s.bad("TLS_CA", "does not contain a PEM certificate; to name a file, use %s", s.origins["TLS_CA"].variable+fileSuffix)
	}
	cert, key := s.origins["TLS_CERT"], s.origins["TLS_KEY"]
	switch {
	case cert.given && !key.given:
		s.bad("TLS_CERT", "requires its private key; set %s, usually as %s", key.variable, key.variable+fileSuffix)
	case key.given && !cert.given:
		s.bad("TLS_KEY", "requires its certificate; set %s, usually as %s", cert.variable, cert.variable+fileSuffix)
	case cert.given && !cert.broken && !key.broken:
		if _, err := tls.X509KeyPair([]byte(d.TLS.Cert.value), []byte(d.TLS.Key.value)); err != nil {
			s.bad("TLS_CERT", "and %s are not a pair of PEM texts; to name files, use %s and %s", key.variable, cert.variable+fileSuffix,
				key.variable+fileSuffix)
		}
	}
}

func checkCredentials(d *Destination, s *scope) {
	checkKafkaLogin(d, s)
	checkAMQPLogin(d, s)
	first := ""
	for _, key := range []string{"NATS_CREDS", "NATS_NKEY", "NATS_TOKEN"} {
		switch o := s.origins[key]; {
		case !o.given:
		case first == "":
			first = o.variable
		default:
			s.bad(key, "is a second credential in addition to %s; keep one of them", first)
		}
	}
	if d.Broker.Protocol == publisher.ProtocolNATS {
		checkNATS(d, s, first)
	}
}

// inboxPrefix is one or several tokens of a subject outside the server's own subjects.
var inboxPrefix = regexp.MustCompile(`^[^\s.*>$][^\s.*>]*(\.[^\s.*>]+)*$`)

func checkNATS(d *Destination, s *scope, credential string) {
	b := d.Broker
	if b.HasUser && credential != "" {
		s.bad("PUBLISH_URL", "contains a user in addition to %s; keep one of them", credential)
	}
	switch first := s.origins["NATS_TLS_FIRST"]; {
	case !d.NATS.TLSFirst || first.inherited:
	case b.WebSocket():
		s.bad("NATS_TLS_FIRST", "has no effect over WebSocket, where TLS always comes first; remove it")
	case !b.TLS:
		s.bad("NATS_TLS_FIRST", "has no effect without TLS; write %s with %s://", s.origins["PUBLISH_URL"].variable, secureSchemes[b.Scheme])
	}
	if d.NATS.Mode == NATSCore {
		for _, key := range []string{"NATS_STREAM", "NATS_MSG_ID_PREFIX", "NATS_JS_DOMAIN", "NATS_INBOX_PREFIX"} {
			if o := s.origins[key]; o.given && !o.inherited {
				s.bad(key, "has no effect while %s is core; remove one of them", s.origins["NATS_MODE"].variable)
			}
		}
	}
	if strings.ContainsFunc(d.NATS.Domain, func(r rune) bool { return r <= ' ' || strings.ContainsRune(".*>", r) }) {
		s.bad("NATS_JS_DOMAIN", "is not the name of a JetStream domain; it must not contain a space, dot, star or >")
	}
	if prefix := d.NATS.InboxPrefix; prefix != "" && (len(prefix) > 128 || !inboxPrefix.MatchString(prefix)) {
		s.bad("NATS_INBOX_PREFIX",
			"is not a prefix of subjects; write at most 128 characters without wildcards or a final dot, such as _INBOX_shop")
	}
	if strings.ContainsFunc(d.NATS.MsgIDPrefix, func(r rune) bool { return r <= ' ' || r > '~' }) {
		s.bad("NATS_MSG_ID_PREFIX", "contains a space or a character that is not ASCII; write a name such as shop or shop.eu")
	}
	if strings.ContainsAny(d.NATS.Stream, " .*>/\\") {
		s.bad("NATS_STREAM", "is not the name of a stream; it must not contain a space, dot, star, > or slash")
	}
}
