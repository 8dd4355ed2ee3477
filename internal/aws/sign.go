package aws

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

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
	if request.URL, err = url.Parse(signed); err != nil {
		return nil, err
	}
	return request.URL.Query(), nil
}
