// Package aws finds the credentials of a process at Amazon Web Services, in the same places and order as Amazon's own
// libraries, and signs requests with them (Signature Version 4).
// It replaces Amazon's Go library, which would add 14 modules and 1.6 MB to the binary for one signature: that of a
// login at Amazon MSK.
package aws

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// Credentials are an access key, temporary if it has a token.
type Credentials struct {
	KeyID   string
	Secret  string
	Token   string    // the session's token; empty for a permanent key
	Expires time.Time // zero for a permanent key
}

// String keeps secrets out of logs and errors.
func (c Credentials) String() string { return "[redacted]" }

// GoString keeps secrets out of %#v.
func (c Credentials) GoString() string { return "aws.Credentials{[redacted]}" }

// A Chain looks for credentials in this order: in the environment, in a web identity token (EKS service accounts), in
// the shared files, and at the container's endpoint (EKS Pod Identity, ECS). Permanent keys are read again each time;
// temporary ones are kept and renewed before they expire. Set the fields before the first use.
type Chain struct {
	Getenv func(string) string // os.Getenv, except in tests
	// Client connects to the security token service, and Local to the container's endpoint, which no proxy can reach.
	Client, Local *http.Client
	Logger        *slog.Logger // nil discards

	mu     sync.Mutex
	kept   Credentials
	given  time.Time // when the credentials were obtained
	next   time.Time // no renewal is tried before this time
	logged bool      // the log has a line about the failed renewal
}

const (
	// renewBefore is how long before their expiry credentials are renewed, or a fifth of their lifetime if that is
	// shorter.
	renewBefore = 5 * time.Minute
	// renewPause is how long credentials that are still valid are used after a failed renewal.
	renewPause = 10 * time.Second
	// refusedPause is how long new credentials are used even if they are refused: if a right is missing, new credentials
	// at each login would not help.
	refusedPause = 5 * time.Second
)

// errNone reports that no place has credentials.
var errNone = errors.New("there are no AWS credentials: give the pod a role (EKS Pod Identity, IAM roles for service " +
	"accounts or an ECS task role), or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SHARED_CREDENTIALS_FILE")

// Credentials returns credentials for requests in a region. It may block for requests. Its errors say what to change,
// and show no secrets.
func (c *Chain) Credentials(ctx context.Context, region string) (Credentials, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	margin := min(renewBefore, c.kept.Expires.Sub(c.given)/5)
	valid := now.Before(c.kept.Expires)
	if valid && (now.Before(c.kept.Expires.Add(-margin)) || now.Before(c.next)) {
		return c.kept, nil
	}
	found, err := c.find(ctx, region)
	switch {
	case err != nil && valid:
		if !c.logged && c.Logger != nil {
			c.Logger.Warn("AWS credentials cannot be renewed; they are used until they expire", "until", c.kept.Expires, "error",
				err)
		}
		c.logged, c.next = true, now.Add(renewPause)
		return c.kept, nil
	case err != nil:
		return Credentials{}, err
	}
	c.kept, c.given, c.next, c.logged = found, now, time.Time{}, false
	return found, nil
}

// Refused records that a login with these credentials was refused: the next login looks for other credentials.
func (c *Chain) Refused(refused Credentials) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if refused.KeyID == c.kept.KeyID && time.Since(c.given) >= refusedPause {
		c.kept = Credentials{}
	}
}

// find tries one place after the other.
func (c *Chain) find(ctx context.Context, region string) (Credentials, error) {
	for _, place := range []func(context.Context, string) (Credentials, bool, error){c.environment, c.webIdentity, c.files,
		c.container} {
		if found, has, err := place(ctx, region); err != nil || has {
			return found, err
		}
	}
	return Credentials{}, errNone
}

// environment returns the key in the process's environment.
func (c *Chain) environment(context.Context, string) (found Credentials, has bool, err error) {
	found = Credentials{KeyID: c.Getenv("AWS_ACCESS_KEY_ID"), Secret: c.Getenv("AWS_SECRET_ACCESS_KEY"),
		Token: c.Getenv("AWS_SESSION_TOKEN")}
	switch {
	case found.KeyID == "" && found.Secret == "":
		return found, false, nil
	case found.KeyID == "" || found.Secret == "":
		return found, false, errors.New("only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is set: set the other one " +
			"too, or neither")
	}
	return found, true, nil
}
