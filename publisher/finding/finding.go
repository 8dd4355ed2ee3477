// Package finding holds what an examination finds: of a broker, of the database, of the settings.
package finding

// A Severity says how much a [Finding] matters.
type Severity uint8

const (
	// OK: looked at, and as it should be.
	OK Severity = iota
	// Warning: rows flow, but something is weaker, slower or less safe than it should be.
	Warning
	// Error: rows do not flow, or an acknowledgement does not mean what it says.
	Error
)

// String returns the severity as the command doctor prints it.
func (s Severity) String() string {
	switch s {
	case OK:
		return "ok"
	case Warning:
		return "warning"
	default:
		return "error"
	}
}

// MarshalText is [Severity.String].
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// A Finding is one thing that was examined, for a human to read. No field ever holds a secret, a
// payload or an ordering key.
type Finding struct {
	Severity Severity `json:"severity"`
	// Check names what was looked at, from a closed set in lower case with underscores: reach,
	// authentication, topic, replication. Scripts rely on it.
	Check string `json:"check"`
	// Subject is the one thing looked at: a topic, a stream, a broker's address. It may be empty.
	Subject string `json:"subject,omitempty"`
	// Found says in plain words what was found, without a full stop.
	Found string `json:"found"`
	// Remedy says what to do about it; empty when there is nothing to do.
	Remedy string `json:"remedy,omitempty"`
}

// A List gathers what an examination finds, in its order.
type List []Finding

// Well adds something that is as it should be.
func (f *List) Well(check, subject, found string) {
	*f = append(*f, Finding{Severity: OK, Check: check, Subject: subject, Found: found})
}

// Warn adds something that is weaker than it should be.
func (f *List) Warn(check, subject, found, remedy string) {
	*f = append(*f, Finding{Severity: Warning, Check: check, Subject: subject, Found: found, Remedy: remedy})
}

// Fail adds something that keeps rows from flowing, or makes an acknowledgement mean less than it says.
func (f *List) Fail(check, subject, found, remedy string) {
	*f = append(*f, Finding{Severity: Error, Check: check, Subject: subject, Found: found, Remedy: remedy})
}
