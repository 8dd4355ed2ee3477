package doctor

import (
	"crypto/tls"
	"net"

	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// encryption examines how a connection to the database that leaves this host is protected. c is how TLS was configured,
// and variable is the setting that says so.
func encryption(conn net.Conn, c *tls.Config, variable string) (f finding.List) {
	to, _ := conn.RemoteAddr().(*net.TCPAddr)
	if to == nil || to.IP.IsLoopback() {
		return nil
	}
	_, encrypted := conn.(*tls.Conn)
	verified := c != nil && (!c.InsecureSkipVerify || c.VerifyPeerCertificate != nil) // the latter is pgx's verify-ca
	const verify = "add sslmode=verify-full and sslrootcert=FILE to it"
	f.Add("encryption", variable,
		finding.WarnIf(!encrypted, "the connection is not encrypted", verify),
		finding.WarnIf(!verified, "the server's certificate is not verified: whoever answers at "+to.String()+
			" is taken for the database", verify))
	return f
}
