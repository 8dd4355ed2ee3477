package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// unreachable is the finding for a connection to the database that could not be made. variable is the setting with its URL.
func unreachable(variable string, err error) finding.Finding {
	remedy := "check host and port in " + variable + ": what answers there may not be a PostgreSQL server"
	check := "reach"
	var server *pgconn.PgError
	var name *net.DNSError
	var network *net.OpError
	switch {
	case errors.As(err, &server):
		check, remedy = refused(server.Code, variable)
	case tlsTrouble(err):
		remedy = "correct sslmode, sslrootcert, sslcert and sslkey in " + variable + ", or the server's certificate"
	case errors.As(err, &name):
		remedy = "correct the host in " + variable + ", or the name service"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		remedy = "nothing answers in time, or what answers is not a PostgreSQL server: check host and port in " + variable +
			", firewalls and network policies"
	case errors.As(err, &network):
		remedy = "start the server, or correct host and port in " + variable + "; check firewalls and network policies"
	}
	return failure(check, variable, remedy, "%s", errtext.Line(err))
}

// refused determines the problem from PostgreSQL's error code (its manual, appendix A).
func refused(code, variable string) (check, remedy string) {
	switch code {
	case "28P01":
		return "authentication", "correct user and password in " + variable + ", or its file"
	case "28000":
		return "authentication", "create the role, let it log in, and allow it in the server's pg_hba.conf; or correct the user in " + variable
	case "3D000":
		return "reach", "correct the database's name in " + variable + ", or create it"
	case "42501":
		return "rights", "grant connect on the database to the role"
	case "53300":
		return "connections", "raise max_connections, or close connections that nobody needs; the relay needs up to 6 for each replica"
	case "57P03":
		return "reach", "wait until the server has started; if it does not, look at its log"
	default:
		return "reach", "look at the server's log for the same message"
	}
}

func tlsTrouble(err error) bool {
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var alert tls.AlertError
	var record tls.RecordHeaderError
	var verification *tls.CertificateVerificationError
	return errors.As(err, &authority) || errors.As(err, &name) || errors.As(err, &invalid) || errors.As(err, &alert) ||
		errors.As(err, &record) || errors.As(err, &verification)
}
