package publisher

import "context"

// A Severity says how much a [Finding] matters.
type Severity uint8

const (
	// SeverityOK: looked at, and as it should be.
	SeverityOK Severity = iota
	// SeverityWarning: rows flow, but something is weaker, slower or less safe than it should be.
	SeverityWarning
	// SeverityError: rows do not flow, or an acknowledgement does not mean what it says.
	SeverityError
)

// String returns the severity as the command doctor prints it.
func (s Severity) String() string {
	switch s {
	case SeverityOK:
		return "ok"
	case SeverityWarning:
		return "warning"
	default:
		return "error"
	}
}

// A Finding is one thing that was examined, for a human to read. No field ever holds a secret, a
// payload or an ordering key.
type Finding struct {
	Severity Severity
	// Check names what was looked at, from a closed set in lower case with underscores: reach,
	// authentication, topic, replication. Scripts rely on it.
	Check string
	// Subject is the one thing looked at: a topic, a stream, a broker's address. It may be empty.
	Subject string
	// Found says in plain words what was found, without a full stop.
	Found string
	// Remedy says what to do about it; empty when there is nothing to do.
	Remedy string
}

// Findings gathers what an examination finds, in its order.
type Findings []Finding

// Well adds something that is as it should be.
func (f *Findings) Well(check, subject, found string) {
	*f = append(*f, Finding{Severity: SeverityOK, Check: check, Subject: subject, Found: found})
}

// Warn adds something that is weaker than it should be.
func (f *Findings) Warn(check, subject, found, remedy string) {
	*f = append(*f, Finding{Severity: SeverityWarning, Check: check, Subject: subject, Found: found, Remedy: remedy})
}

// Fail adds something that keeps rows from flowing, or makes an acknowledgement mean less than it says.
func (f *Findings) Fail(check, subject, found, remedy string) {
	*f = append(*f, Finding{Severity: SeverityError, Check: check, Subject: subject, Found: found, Remedy: remedy})
}

// An Examiner is a [Publisher] that can say more about its broker than whether it answers: whether
// the topics exist, and whether an acknowledgement means what it says.
type Examiner interface {
	// Examine looks at the connection and at these addresses (of rows that wait, a sample without
	// doubles, possibly none), connecting first if need be. It
	// publishes nothing and changes nothing at the broker. A broker that cannot be reached, or that
	// does not let this client look, is a finding too. It returns what it has when ctx ends.
	Examine(ctx context.Context, addresses []Address) []Finding
}
