package doctor

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// unreachable is the finding for a connection to the database that cannot be made. variable holds its URL. Which of the
// causes that a connection can have is at work is in the error's own text.
func unreachable(variable string, err error) finding.Finding {
	f := unanswered("reach", variable, err)
	if server, answered := errors.AsType[*pgconn.PgError](err); answered && strings.HasPrefix(server.Code, "28") {
		f.Check = "authentication"
	}
	f.Remedy = "correct host and port, user and password, database, sslmode and its certificates in " + variable +
		"; check that a PostgreSQL server runs there, name service, firewalls and network policies, and that the " +
		"server lets the role in (login, pg_hba.conf, connect on the database, max_connections)"
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
