// Package inspect holds what the examinations of all brokers share.
package inspect

import (
	"errors"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// Names of checks that several brokers have, as scripts read them.
const (
	Reach          = "reach"
	Authentication = "authentication"
	Version        = "version"
	Topic          = "topic"
	Permission     = "permission"
	Replication    = "replication"
	Limits         = "limits"
	Size           = "message_size"
)

// Unusable is the finding for a broker that cannot be used. Errors of the relay's own publishers explain themselves.
// For other errors the caller gives the remedy and the subject.
func Unusable(subject string, err error, remedy string) finding.Finding {
	f := finding.Finding{
		Severity: finding.Error, Check: Reach, Subject: subject, Found: errtext.Line(err), Remedy: remedy,
	}
	explained, ok := errors.AsType[interface {
		error
		Explanation() (login bool, address, found, remedy string)
	}](err)
	if !ok {
		return f
	}
	var login bool
	if login, f.Subject, f.Found, f.Remedy = explained.Explanation(); login {
		f.Check = Authentication
	}
	return f
}
