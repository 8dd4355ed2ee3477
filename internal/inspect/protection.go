package inspect

import "github.com/outbox-relay/outbox-relay/publisher/finding"

// Protection adds the finding about how a connection to a broker is protected. remedy says how to get TLS.
func Protection(f *finding.List, address string, login, encrypted bool, remedy string) {
	f.Add(Authentication, address,
		finding.OKIf(login && encrypted, "the login succeeds, over TLS"),
		finding.OKIf(encrypted, "TLS, without a login"),
		finding.WarnIf(login, "the login succeeds, but without TLS its credentials or the messages can be read on the "+
			"way", remedy),
		finding.WarnIf(true, "neither TLS nor a login: anybody on the way can read and change the messages", remedy))
}
