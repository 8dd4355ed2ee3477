package aws

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// A Request is a request to be signed: GET of a host's root with parameters, without a body.
type Request struct {
	Host, Region, Service string
	Query                 url.Values
	At                    time.Time
	Life                  time.Duration // lifetime of the signature, in whole seconds
}

// emptyHash is the digest of an empty body.
const emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// Presign returns the parameters of the request together with those that sign it.
func (r Request) Presign(ctx context.Context, c Credentials) (url.Values, error) {
	parameters := r.Query.Encode() + "&X-Amz-Expires=" + strconv.Itoa(int(r.Life.Seconds()))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+r.Host+"/?"+parameters, nil)
	if err != nil {
		return nil, err
	}
	key := aws.Credentials{AccessKeyID: c.KeyID, SecretAccessKey: c.Secret, SessionToken: c.Token}
	signed, _, err := v4.NewSigner().PresignHTTP(ctx, key, request, emptyHash, r.Service, r.Region, r.At)
	if err != nil {
		return nil, err
	}
	parsed, err := url.Parse(signed)
	if err != nil {
		return nil, err
	}
	return parsed.Query(), nil
}
