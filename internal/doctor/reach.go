package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// refusals are the answers of a server to a connection, by SQLSTATE: the check and the remedy. URL stands for the
// variable.
var refusals = map[string][2]string{
	"28P01": {"authentication", "correct user and password in URL, or its file"},
	"28000": {"authentication", "create the role, let it log in, and allow it in the server's pg_hba.conf; or " +
		"correct the user in URL"},
	"3D000": {"reach", "correct the database's name in URL, or create it"},
	"42501": {"rights", "grant connect on the database to the role"},
	"53300": {"connections", "raise max_connections, or close connections that nobody needs; the relay needs up to 6 " +
		"for each replica"},
	"57P03": {"reach", "wait until the server has started; if it does not, look at its log"},
}

// unreachable is the finding for a connection to the database that cannot be made. variable holds its URL.
func unreachable(variable string, err error) finding.Finding {
	check, remedy := "reach", "check host and port in URL: what answers there may not be a PostgreSQL server"
	var server *pgconn.PgError
	var name *net.DNSError
	var network *net.OpError
	switch {
	case errors.As(err, &server):
		remedy = "look at the server's log for the same message"
		if known, ok := refusals[server.Code]; ok {
			check, remedy = known[0], known[1]
		}
	case tlsTrouble(err):
		remedy = "correct sslmode, sslrootcert, sslcert and sslkey in URL, or the server's certificate"
	case errors.As(err, &name):
		remedy = "correct the host in URL, or the name service"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		remedy = "nothing answers in time, or what answers is not a PostgreSQL server: check host and port in URL, " +
			"firewalls and network policies"
	case errors.As(err, &network):
		remedy = "start the server, or correct host and port in URL; check firewalls and network policies"
	}
	return finding.Finding{
		Severity: finding.Error, Check: check, Subject: variable, Found: errtext.Line(err),
		Remedy: strings.ReplaceAll(remedy, "URL", variable),
	}
}

// tlsTrouble reports whether a connection failed because of its TLS.
func tlsTrouble(err error) bool {
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var alert tls.AlertError
	var record tls.RecordHeaderError
	var verification *tls.CertificateVerificationError
	for _, one := range []any{&authority, &name, &invalid, &alert, &record, &verification} {
		if errors.As(err, one) {
			return true
		}
	}
	return false
}
