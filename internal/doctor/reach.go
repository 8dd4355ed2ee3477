package doctor

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// refusals are the answers of a server to a connection, by SQLSTATE: the check and the remedy. URL stands for the
// variable.
var refusals = map[string][2]string{
	"28P01": {"authentication", "correct user and password in URL, or its file"},
	"28000": {"authentication", "create the role with login and allow it in pg_hba.conf, or correct the user in URL"},
	"3D000": {"reach", "correct the database's name in URL, or create it"},
	"42501": {"rights", "grant connect on the database to the role"},
	"53300": {"connections", "raise max_connections: a replica of the relay uses up to 6 connections"},
	"57P03": {"reach", "wait until the server has started; if it does not, look at its log"},
}

// unreachable is the finding for a connection to the database that cannot be made. variable holds its URL. Which of the
// causes that a connection can have is at work is in the error's own text.
func unreachable(variable string, err error) finding.Finding {
	f := unanswered("reach", variable, err)
	server, answered := errors.AsType[*pgconn.PgError](err)
	if !answered {
		f.Remedy = "check in URL host and port, at which a PostgreSQL server must answer, and sslmode and its " +
			"certificates; check that the server runs, the name service, firewalls and network policies"
	} else if known, ok := refusals[server.Code]; ok {
		f.Check, f.Remedy = known[0], known[1]
	}
	f.Remedy = strings.ReplaceAll(f.Remedy, "URL", variable)
	return f
}

// unanswered is the finding for a question that the database did not answer.
func unanswered(check, subject string, err error) finding.Finding {
	f := finding.Finding{
		Severity: finding.Error, Check: check, Subject: subject, Found: errtext.Line(err),
		Remedy: "look at the server's log for the same message",
	}
	if setup, ok := errors.AsType[*outbox.SetupError](err); ok {
		f.Found, f.Remedy = setup.Found, setup.Remedy
	}
	return f
}
