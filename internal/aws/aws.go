// Package aws finds the credentials of a process at Amazon Web Services, in the same places and order as Amazon's own
// libraries, except for the shared files of a user (~/.aws) and the role of an instance, which containers do not have.
// It signs requests with them (Signature Version 4), by Amazon's own signer. The rest of Amazon's library is not used:
// it would add 12 more modules and 2.5 MB to the binary, which may have 25 MB, for one login: that at Amazon MSK.
package aws

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/outbox-relay/outbox-relay/internal/renewed"
)

// Credentials are an access key, temporary if it has a token and expires. The agents of nodes give them in JSON, and
// the security token service in XML.
type Credentials struct {
	KeyID   string    `json:"AccessKeyId" xml:"AssumeRoleWithWebIdentityResult>Credentials>AccessKeyId"`
	Secret  string    `json:"SecretAccessKey" xml:"AssumeRoleWithWebIdentityResult>Credentials>SecretAccessKey"`
	Token   string    `json:"Token" xml:"AssumeRoleWithWebIdentityResult>Credentials>SessionToken"`
	Expires time.Time `json:"Expiration" xml:"AssumeRoleWithWebIdentityResult>Credentials>Expiration"`
}

// Format keeps secrets out of logs and errors.
func (Credentials) Format(to fmt.State, _ rune) { _, _ = io.WriteString(to, "[redacted]") }

// A Chain looks for credentials in this order: in the environment, in a web identity token (EKS service accounts), and
// at the container's endpoint (EKS Pod Identity, ECS). Permanent keys are read again each time; temporary ones are kept
// and renewed before they expire. Set the fields before the first use.
type Chain struct {
	Getenv func(string) string // os.Getenv, except in tests
	// Client connects to the security token service, and Local to the container's endpoint, which no proxy can reach.
	Client, Local *http.Client
	Logger        *slog.Logger

	kept renewed.Value[Credentials]
}

// Credentials returns credentials for requests in a region. It may block for requests. Its errors say what to change,
// and show no secrets.
func (c *Chain) Credentials(ctx context.Context, region string) (Credentials, error) {
	return c.kept.From("AWS credentials", c.Logger, func() (Credentials, time.Time, error) {
		found, err := c.find(ctx, region)
		return found, found.Expires, err
	})
}

// Refused records that a login with these credentials was refused: the next login looks for other credentials.
func (c *Chain) Refused(refused Credentials) { c.kept.Refused(refused) }

// find takes the first place that the environment names.
func (c *Chain) find(ctx context.Context, region string) (Credentials, error) {
	key := Credentials{
		KeyID: c.Getenv("AWS_ACCESS_KEY_ID"), Secret: c.Getenv("AWS_SECRET_ACCESS_KEY"),
		Token: c.Getenv("AWS_SESSION_TOKEN"),
	}
	identity, agent := c.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE"), c.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI")
	if relative := c.Getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"); relative != "" {
		agent = taskEndpoint + relative
	}
	switch {
	case key.KeyID != "" && key.Secret != "":
		return key, nil
	case identity != "":
		return c.webIdentity(ctx, region, identity)
	case agent != "":
		return c.container(ctx, agent)
	}
	return Credentials{}, errors.New("there are no AWS credentials: give the pod a role (EKS Pod Identity, IAM roles " +
		"for service accounts or an ECS task role), or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; shared files " +
		"are not read")
}

// emptyHash is the digest of an empty body.
const emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// Presign returns the parameters of a GET of an address, without a body, together with those that sign it.
func Presign(ctx context.Context, c Credentials, address, service, region string, at time.Time) (url.Values, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	key := aws.Credentials{AccessKeyID: c.KeyID, SecretAccessKey: c.Secret, SessionToken: c.Token}
	signed, _, err := v4.NewSigner().PresignHTTP(ctx, key, request, emptyHash, service, region, at)
	if err != nil {
		return nil, err
	}
	_, query, _ := strings.Cut(signed, "?")
	return url.ParseQuery(query)
}
