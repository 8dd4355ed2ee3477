package config

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A Broker is a parsed publish URL. It holds the password: do not print it.
type Broker struct {
	Protocol publisher.Protocol // empty if the relay has no publisher of its own for the scheme, and for stdout:
	TLS      bool
	Scheme   string        // in lower case
	Hosts    []string      // at least one if there is a protocol; for AMQP a port may be missing
	User     *url.Userinfo // nil if there is none; a token for NATS without a password
}

// schemeStdout is the scheme of the URL stdout: which writes JSON lines.
const schemeStdout = "stdout"

var brokerSchemes = map[string]publisher.Protocol{
	"kafka": publisher.ProtocolKafka, "kafka+tls": publisher.ProtocolKafka,
	"nats": publisher.ProtocolNATS, "nats+tls": publisher.ProtocolNATS,
	"amqp": publisher.ProtocolAMQP, "amqps": publisher.ProtocolAMQP,
}

var secureSchemes = []string{"kafka+tls", "nats+tls", "amqps"}

var usualPorts = map[publisher.Protocol]string{publisher.ProtocolKafka: ":9092", publisher.ProtocolNATS: ":4222"}

const brokerForms = "write kafka://host:9092, nats://host:4222 or amqp://user:password@host:5672/vhost (with TLS " +
	"kafka+tls, nats+tls or amqps), or stdout: to try it out"

// parseBroker parses a publish URL. If it has one of the further schemes, only the scheme is read. Errors continue the
// sentence that begins with the variable's name, and contain no secret.
func parseBroker(publishURL string, further []string) (Broker, error) {
	if publishURL == schemeStdout+":" {
		return Broker{Scheme: schemeStdout}, nil
	}
	if scheme, _, found := strings.Cut(publishURL, ":"); found && slices.Contains(further, strings.ToLower(scheme)) {
		return Broker{Scheme: strings.ToLower(scheme)}, nil
	}
	u, err := splitURL(publishURL)
	if err != nil {
		return Broker{}, err
	}
	protocol, known := brokerSchemes[u.Scheme]
	b := Broker{
		Protocol: protocol, Scheme: u.Scheme, TLS: slices.Contains(secureSchemes, u.Scheme), User: u.User,
	}
	switch {
	case !known:
		return Broker{}, fmt.Errorf("has the unknown scheme %q; %s", u.Scheme, brokerForms)
	case b.Protocol == publisher.ProtocolKafka && u.User != nil:
		return Broker{}, errors.New("contains a user, which Kafka URLs do not support; set " +
			"OUTBOX_KAFKA_SASL_MECHANISM, _USERNAME and _PASSWORD instead")
	case b.Protocol != publisher.ProtocolAMQP && strings.Trim(u.Path, "/")+u.RawQuery != "":
		return Broker{}, errors.New("has a path or parameters, which only AMQP URLs support; see OUTBOX_TOPIC")
	}
	for host := range strings.SplitSeq(u.Host, ",") {
		parts := hostForm.FindStringSubmatch(host)
		if parts == nil {
			return Broker{}, errors.New("has a host that cannot be read; write host or host:port, IPv6 addresses in " +
				"brackets")
		}
		if port := parts[1]; port == "" {
			host += usualPorts[protocol]
		}
		b.Hosts = append(b.Hosts, host)
	}
	return b, nil
}

// hostForm is a name or an address, in brackets one of IPv6, and a port or none.
var hostForm = regexp.MustCompile(`^(?:[^:\[\]]+|\[[^\[\]]+\])(:[1-9][0-9]{0,4})?$`)

// ReadBroker parses the present publish URL: a URL from a file may contain another password than when it was loaded.
func (d *Destination) ReadBroker() (Broker, error) {
	text, err := d.PublishURL.Read()
	if err != nil {
		return Broker{}, err
	}
	b, err := parseBroker(text, nil)
	if err != nil {
		return Broker{}, fmt.Errorf("%s %w", d.scope.nameOf("PUBLISH_URL"), err)
	}
	return b, nil
}
