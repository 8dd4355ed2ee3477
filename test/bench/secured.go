package main

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/services"
	"github.com/outbox-relay/outbox-relay/test/bench/publish/tlsproxy"
	"github.com/outbox-relay/outbox-relay/test/testkit"
)

// secured is a broker for one study alone, which accepts connections with TLS and without.
type secured struct {
	plain, secure string // addresses in the form that the relay expects
	certificate   string // file of its self-signed certificate
	set           *services.Set
}

// startSecured starts a broker. The caller closes it.
func (l *lab) startSecured(ctx context.Context, k kind) (*secured, error) {
	dir, err := os.MkdirTemp(l.dir, k.name+"-")
	if err != nil {
		return nil, err
	}
	s := &secured{certificate: filepath.Join(dir, "server.pem"), set: &services.Set{Checkout: "../..", Dir: dir}}
	key := filepath.Join(dir, "server.key")
	if err := writeCertificate(s.certificate, key); err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	if s.plain, err = s.set.Address(ctx, k.variable); err != nil {
		return nil, err
	}
	at, err := url.Parse(s.plain)
	if err != nil {
		return nil, fmt.Errorf("address of %s: %w", k.name, err)
	}
	free, err := testkit.FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	s.set.Settings = []string{"SERVICES_MODE=native", withTLS(at, free, s.certificate, key)}
	s.secure = at.String()
	if _, err := s.set.Run(ctx, "up", k.name); err != nil {
		return nil, errors.Join(err, s.close(ctx))
	}
	return s, nil
}

// withTLS returns the setting of dev/services.sh with which a broker also accepts connections with TLS. It changes the
// address at to the one for TLS: the free address, if the broker needs a separate one.
func withTLS(at *url.URL, free, certificate, key string) (setting string) {
	switch at.Scheme {
	case "kafka":
		listeners := "PLAINTEXT://" + at.Host + ",SECURE://" + free
		port, _ := strconv.Atoi(at.Port())                           // a broker's URL has a port
		controller := fmt.Sprint(",CONTROLLER://127.0.0.1:", port+1) // as in dev/services/ports.sh
		at.Scheme, at.Host = "kafka+tls", free
		return "SERVICES_KAFKA_PROPERTIES=" + strings.Join([]string{
			"listeners=" + listeners + controller,
			"advertised.listeners=" + listeners,
			"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SSL",
			"ssl.keystore.type=PEM",
			"ssl.keystore.location=" + certificate,
		}, "\n")
	case "nats":
		at.Scheme = "nats+tls"
		return fmt.Sprintf("SERVICES_NATS_CONF=tls { cert_file: %q, key_file: %q }\nallow_non_tls: true", certificate,
			key)
	default:
		at.Scheme, at.Host = "amqps", free
		return "SERVICES_RABBITMQ_CONF=" + strings.Join([]string{
			"listeners.ssl.default = " + free, "ssl_options.certfile = " + certificate, "ssl_options.keyfile = " + key,
		}, "\n")
	}
}

// writeCertificate writes a certificate for 127.0.0.1 and its key to separate files. The certificate's file contains
// the key too, as Kafka requires.
func writeCertificate(certificate, key string) error {
	server, _, err := tlsproxy.Configs()
	if err != nil {
		return err
	}
	pair := server.Certificates[0]
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		return err
	}
	private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})
	return errors.Join(os.WriteFile(certificate, append(public, private...), 0o600), os.WriteFile(key, private, 0o600))
}

// close stops the broker and deletes its data.
func (s *secured) close(ctx context.Context) error {
	_, err := s.set.Run(context.WithoutCancel(ctx), "wipe")
	return err
}
