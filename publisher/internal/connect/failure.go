// Package connect holds what the publishers share for connecting: the one connection that is kept up, and its writes;
// what an error means, and the wording of a failure; the pause after a failure, and the order in which several
// addresses are tried.
package connect

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/internal/inspect"
	"github.com/outbox-relay/outbox-relay/internal/setting"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// A Failure says in one sentence why a broker cannot be used, and what to change. The same situation gives the same
// sentence each time, without local ports or the time of day, so that it is not logged twice. It holds no secret.
type Failure struct {
	Short   string // two or three fixed words, as in publisher.Error
	Broker  string // name of the broker in the sentence, such as "NATS server"
	Address string // host:port
	Found   string
	Cause   error // nil if Found is complete
	Remedy  string
	Login   bool // the failure concerns this client's identity
}

func (f *Failure) Error() string {
	return f.Broker + " " + f.Address + ": " + f.found() + ": " + f.Remedy
}

func (f *Failure) found() string {
	if f.Cause == nil {
		return f.Found
	}
	return f.Found + ": " + f.Cause.Error()
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Cause }

// Unusable returns the finding for a broker that cannot be used. For errors that are no failure, the caller gives the
// remedy and the subject.
func Unusable(subject string, err error, remedy string) finding.List {
	is := finding.Finding{
		Severity: finding.Error, Check: inspect.Reach, Subject: subject, Found: errtext.Line(err), Remedy: remedy,
	}
	if f, ok := errors.AsType[*Failure](err); ok {
		if is.Subject, is.Found, is.Remedy = f.Address, f.found(), f.Remedy; f.Login {
			is.Check = inspect.Authentication
		}
	}
	return finding.List{is}
}

// An Attempt holds what is known of a try to connect, for any kind of broker. One mistake is explained in the same
// words whatever the broker.
type Attempt struct {
	Broker, Address string // as in Failure
	// Servers is the user's name for the setting that holds the address. Plain and Secure are the URL schemes of that
	// setting without and with TLS.
	Servers, Plain, Secure string
	Names                  setting.Names
}

// Failed returns a failure of the attempt.
func (a *Attempt) Failed(short, found, remedy string, cause error) *Failure {
	return &Failure{Short: short, Broker: a.Broker, Address: a.Address, Found: found, Remedy: remedy, Cause: cause}
}

// FailedLogin returns a failure that concerns this client's identity.
func (a *Attempt) FailedLogin(short, found, remedy string, cause error) *Failure {
	f := a.Failed(short, found, remedy, cause)
	f.Login = true
	return f
}

// Network explains an error that keeps a connection from being made at all. It returns nil for any other error.
func (a *Attempt) Network(err error) *Failure {
	_, dns := errors.AsType[*net.DNSError](err)
	switch {
	case dns:
		return a.Failed("unknown host", "its host name cannot be resolved",
			"correct the host in "+a.Servers+", or the name service", nil)
	case errors.Is(err, syscall.ECONNREFUSED):
		return a.Failed("connection refused", "nothing listens there",
			"check that it runs, and host and port in "+a.Servers, nil)
	case TimedOut(err):
		return a.Silent()
	}
	return nil
}

// Silent returns the failure of an attempt that was not answered in time. Another server may be at the address, or one
// that expects TLS.
func (a *Attempt) Silent() *Failure {
	return a.Failed("no answer", "it does not answer", "check the network, host and port in "+a.Servers+
		", and whether it should be "+a.Plain+" or "+a.Secure, nil)
}

// TLS explains why there is no TLS session. It returns nil for any other error.
func (a *Attempt) TLS(err error) *Failure {
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](err)
	_, verification := errors.AsType[*tls.CertificateVerificationError](err)
	_, isRecord := errors.AsType[tls.RecordHeaderError](err)
	_, own := errors.AsType[settingsError](err)
	switch {
	case own:
		return a.Failed("TLS settings unusable", "the TLS settings cannot be used",
			"correct "+a.Names.Of("TLS.RootCAs")+" and "+a.Names.Of("TLS.Certificates"), err)
	case isInvalid && invalid.Reason == x509.Expired: // the error's own text contains the time of the check
		return a.Failed("certificate expired", "its certificate has expired or is not valid yet: it is valid from "+
			second(invalid.Cert.NotBefore)+" to "+second(invalid.Cert.NotAfter)+" only",
			"renew it, and compare the clocks", nil)
	case verification: // which says more
		return a.Failed("certificate not trusted", "its certificate is not accepted", "check that "+a.Servers+" or "+
			a.Names.Of("TLS.ServerName")+" has the certificate's name, and "+a.Names.Of("TLS.RootCAs")+
			" its authority", err)
	case RefusedTLS(err):
		return a.Refused(err)
	case isRecord:
		return a.Failed("no TLS", "it does not speak TLS there",
			"correct host and port in "+a.Servers+", or write "+a.Plain+" if it is a listener without TLS", nil)
	}
	return nil
}

// Refused returns the failure of a TLS session that the other side has ended. TLS says of the reason no more than the
// name of an alert, and a lost alert not even that, so the advice names what is usual: the client's certificate, or the
// port.
func (a *Attempt) Refused(err error) *Failure {
	return a.Failed("TLS refused", "it ended the TLS session",
		"give a client certificate that it trusts and that has not expired as "+
			a.Names.Of("TLS.Certificates")+", and check the port", err)
}

// A settingsError is an error in this client's own TLS settings. The broker has no part in it.
type settingsError struct{ error }

func (e settingsError) Unwrap() error { return e.error }

// TLS returns the current settings for a session with a host, which may be shared and are therefore copied. Unless they
// name another, the certificate must be for the host's name. nil, also returned by settings, stands for the authorities
// of the system.
func TLS(settings func() (*tls.Config, error), host string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if settings != nil {
		given, err := settings()
		if err != nil {
			return nil, settingsError{err}
		}
		config = cmp.Or(given.Clone(), config)
	}
	config.ServerName = cmp.Or(config.ServerName, host)
	return config, nil
}

func second(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Stable returns an error that is the same at each try: the read error of a network names a local port.
func Stable(err error) error {
	operation, ok := errors.AsType[*net.OpError](err)
	if ok && (operation.Op == "read" || operation.Op == "write") {
		return operation.Err
	}
	return err
}
