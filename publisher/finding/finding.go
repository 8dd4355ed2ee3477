// Package finding holds the results of examining a broker, the database or the settings.
package finding

// A Severity says how much a [Finding] matters.
type Severity uint8

const (
	// OK: examined and in order.
	OK Severity = iota
	// Warning: rows flow, but something is weaker, slower or less safe than it should be.
	Warning
	// Error: rows do not flow, or an acknowledgement does not mean what it says.
	Error
)

var severities = [...]string{"ok", "warning", "error"}

// String returns the name of the severity in reports.
func (s Severity) String() string { return severities[s] }

// MarshalText returns the text of [Severity.String].
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// A Finding is the result of one check, for a human to read. No field holds a secret, a payload or an ordering key.
type Finding struct {
	Severity Severity `json:"severity"`
	// Check names what was examined, from a closed set in lower case with underscores: reach, authentication, topic,
	// replication. Scripts rely on it.
	Check string `json:"check"`
	// Subject is the thing examined: a topic, a stream, a broker's address. It may be empty.
	Subject string `json:"subject,omitempty"`
	// Found says in plain words what was found, without a full stop.
	Found string `json:"found"`
	// Remedy says what to do about it. It is empty if there is nothing to do.
	Remedy string `json:"remedy,omitempty"`
}

// A List collects the findings of an examination in order.
type List []Finding

// AsWarnings turns the errors among findings into warnings, for something that nothing else waits for. It changes the
// findings in place and returns them.
func AsWarnings(findings []Finding) []Finding {
	for i := range findings {
		findings[i].Severity = min(findings[i].Severity, Warning)
	}
	return findings
}

// Well adds a finding that something is in order.
func (f *List) Well(check, subject, found string) {
	*f = append(*f, Finding{Severity: OK, Check: check, Subject: subject, Found: found})
}

// Warn adds a finding that something is weaker than it should be.
func (f *List) Warn(check, subject, found, remedy string) {
	*f = append(*f, Finding{Severity: Warning, Check: check, Subject: subject, Found: found, Remedy: remedy})
}

// Fail adds a finding that something keeps rows from flowing, or makes an acknowledgement mean less than it says.
func (f *List) Fail(check, subject, found, remedy string) {
	*f = append(*f, Finding{Severity: Error, Check: check, Subject: subject, Found: found, Remedy: remedy})
}

// An Answer is a possible result of one check, and whether it applies.
type Answer struct {
	applies bool
	Finding
}

// FailIf returns an answer of severity [Error].
func FailIf(applies bool, found, remedy string) Answer {
	return Answer{applies, Finding{Severity: Error, Found: found, Remedy: remedy}}
}

// WarnIf returns an answer of severity [Warning].
func WarnIf(applies bool, found, remedy string) Answer {
	return Answer{applies, Finding{Severity: Warning, Found: found, Remedy: remedy}}
}

// OKIf returns an answer of severity [OK].
func OKIf(applies bool, found string) Answer { return Answer{applies, Finding{Found: found}} }

// Add adds the first of the answers that applies as the result of a check. If none does, it adds nothing.
func (f *List) Add(check, subject string, answers ...Answer) {
	for _, a := range answers {
		if a.applies {
			a.Check, a.Subject = check, subject
			*f = append(*f, a.Finding)
			return
		}
	}
}
