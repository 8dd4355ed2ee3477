package doctor

import (
	"errors"
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

// unreachable is the finding for a connection to the database that cannot be made. variable holds its URL. Which of the
// causes that a connection can have is at work is in the error's own text.
func unreachable(variable string, err error) finding.Finding {
	check, remedy := "reach", "check in URL host and port, at which a PostgreSQL server must answer, and sslmode and "+
		"its certificates; check that the server runs, the name service, firewalls and network policies"
	if server, ok := errors.AsType[*pgconn.PgError](err); ok {
		remedy = "look at the server's log for the same message"
		if known, ok := refusals[server.Code]; ok {
			check, remedy = known[0], known[1]
		}
	}
	return finding.Finding{
		Severity: finding.Error, Check: check, Subject: variable, Found: errtext.Line(err),
		Remedy: strings.ReplaceAll(remedy, "URL", variable),
	}
}
