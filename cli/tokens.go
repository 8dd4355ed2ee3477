package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/http"
	"os"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/aws"
	"github.com/outbox-relay/outbox-relay/internal/oauth"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/kafka"
)

// newTokens returns the source of tokens that the settings with the given prefix describe.
func newTokens(o config.OAuth, prefix string, t config.TLS, logger *slog.Logger) publisher.Tokens {
	if o.Token.IsSet() {
		return oauth.Given(o.Token.Read)
	}
	return &oauth.Endpoint{
		URL: o.TokenURL.Loaded(), Scope: o.Scope, Settings: prefix, HTTP: tokenClient(t), Logger: logger,
		Client: func() (c oauth.Client, err error) {
			if c.ID, c.Secret, err = readPair(o.ClientID, o.ClientSecret); err == nil {
				c.Assertion, err = o.ClientAssertion.Read()
			}
			return c, err
		},
	}
}

// awsKeys returns a source of the AWS credentials of the process.
func awsKeys(logger *slog.Logger) kafka.AWSKeys {
	chain := &aws.Chain{
		Getenv: os.Getenv, Client: tokenClient(config.TLS{}), Logger: logger,
		Local: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: stay},
	}
	return func(ctx context.Context, region string) (kafka.AWSKey, error) {
		found, err := chain.Credentials(ctx, region)
		refused := func() { chain.Refused(found) }
		return kafka.AWSKey{ID: found.KeyID, Secret: found.Secret, Token: found.Token, Refused: refused}, err
	}
}

// tokenClient trusts the broker's authorities in addition to those of the system: a private identity provider often has
// the same.
func tokenClient(t config.TLS) *http.Client {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	roots.AppendCertsFromPEM([]byte(t.CA.Loaded()))
	return &http.Client{CheckRedirect: stay, Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}}
}

// stay follows no redirect: no other host must receive the secret.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
