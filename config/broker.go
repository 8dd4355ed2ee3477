package config

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// A Broker is what a publish URL says, taken apart. It holds the password: do not print it.
type Broker struct {
	Family   Family
	TLS      bool
	Scheme   string   // in lower case
	Hosts    []string // host or host:port, at least one unless the family is Stdout
	Path     string   // of a WebSocket listener; empty or with a slash at its beginning
	User     string   // decoded; for NATS without a password it is a token
	Password string
	HasUser  bool // the URL has a user part
	HasPass  bool // and a password in it
}

// A Family is the kind of client that a broker needs.
type Family string

// The families of brokers. Stdout writes JSON lines instead.
const (
	FamilyKafka  Family = "kafka"
	FamilyNATS   Family = "nats"
	FamilyAMQP   Family = "amqp"
	FamilyStdout Family = "stdout"
)

// schemeWebSocket is that of NATS through WebSocket, without TLS.
const schemeWebSocket = "ws"

// WebSocket reports whether a NATS server is to be reached through its WebSocket listener.
func (b Broker) WebSocket() bool {
	return b.Scheme == schemeWebSocket || b.Scheme == secureSchemes[schemeWebSocket]
}

// secureSchemes are the schemes with TLS in place of those without.
var secureSchemes = map[string]string{"kafka": "kafka+tls", "nats": "nats+tls", "amqp": "amqps", schemeWebSocket: "wss"}

var brokerSchemes = map[string]Broker{
	"kafka": {Family: FamilyKafka}, "kafka+tls": {Family: FamilyKafka, TLS: true},
	"nats": {Family: FamilyNATS}, "nats+tls": {Family: FamilyNATS, TLS: true},
	"amqp": {Family: FamilyAMQP}, "amqps": {Family: FamilyAMQP, TLS: true},
	schemeWebSocket: {Family: FamilyNATS}, "wss": {Family: FamilyNATS, TLS: true},
}

const brokerForms = "write kafka://host:9092, nats://host:4222 or amqp://user:password@host:5672/vhost (with TLS kafka+tls, nats+tls or amqps), ws:// or wss:// for NATS through WebSocket, or stdout: to try it out"

// ParseBroker reads a publish URL. Its errors go on after the variable's name and hold no secret.
func ParseBroker(publishURL string) (Broker, error) {
	if publishURL == "stdout:" {
		return Broker{Family: FamilyStdout}, nil
	}
	u, err := splitURL(publishURL)
	if errors.Is(err, errNoURL) {
		return Broker{}, errors.New("is no URL of a broker; " + brokerForms)
	} else if err != nil {
		return Broker{}, err
	}
	b, known := brokerSchemes[u.scheme]
	b.Scheme = u.scheme
	switch {
	case !known:
		return b, fmt.Errorf("has the unknown scheme %q; %s", u.scheme, brokerForms)
	case b.Family == FamilyKafka && u.user != nil:
		return b, errors.New("holds a user, which Kafka URLs do not have; give OUTBOX_KAFKA_SASL_MECHANISM, _USERNAME and _PASSWORD instead")
	case b.Family != FamilyAMQP && !b.WebSocket() && strings.Trim(u.path, "/") != "":
		return b, errors.New("has a path, which only AMQP URLs have (the vhost); set the topic with OUTBOX_TOPIC")
	case b.Family != FamilyAMQP && u.query != "":
		return b, errors.New("has parameters after a ?, which only AMQP URLs have")
	}
	if err := checkHosts(u.hosts); err != nil {
		return b, err
	}
	b.Hosts = strings.Split(u.hosts, ",")
	if b.WebSocket() {
		b.Path = u.path
	}
	if u.user != nil { // splitURL has seen that it can be decoded
		b.HasUser = true
		b.User, _ = url.PathUnescape(*u.user)
	}
	if u.pass != nil {
		b.HasPass = true
		b.Password, _ = url.PathUnescape(*u.pass)
	}
	return b, nil
}
