package aws

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/renewed"
)

// webIdentity exchanges the token that the cluster writes into a file for temporary credentials of a role
// (AssumeRoleWithWebIdentity), as IAM roles for service accounts (EKS) do. The file is read each time, since its token
// is renewed.
func (c *Chain) webIdentity(ctx context.Context, region string) (found Credentials, has bool, err error) {
	file, role := c.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE"), c.Getenv("AWS_ROLE_ARN")
	if file == "" {
		return found, false, nil
	}
	if role == "" {
		return found, false, errors.New("AWS_WEB_IDENTITY_TOKEN_FILE is set without AWS_ROLE_ARN: set the role as well")
	}
	token, err := os.ReadFile(file)
	if err != nil {
		return found, false, fmt.Errorf("the token in AWS_WEB_IDENTITY_TOKEN_FILE cannot be read: correct the path, "+
			"or mount the file: %w", err)
	}
	form := url.Values{
		"Action": {"AssumeRoleWithWebIdentity"}, "Version": {"2011-06-15"}, "RoleArn": {role},
		"RoleSessionName":  {cmp.Or(c.Getenv("AWS_ROLE_SESSION_NAME"), "outbox-relay")},
		"WebIdentityToken": {strings.TrimSpace(string(token))},
	}
	at := cmp.Or(c.Getenv("AWS_ENDPOINT_URL_STS"), c.Getenv("AWS_ENDPOINT_URL"),
		"https://sts."+region+"."+domain(region)+"/")
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(form.Encode()))
	if err != nil {
		return found, false, errors.New("AWS_ENDPOINT_URL_STS is not a URL: correct it, or remove it")
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return obtain(c.Client, request, xml.Unmarshal, renewed.Remedies{
		Away: fmt.Sprintf("the AWS security token service at %s cannot be reached: check the network, or set "+
			"AWS_ENDPOINT_URL_STS to its VPC endpoint", request.URL.Host),
		Refused: fmt.Sprintf("the AWS security token service at %s refuses role %s: check AWS_ROLE_ARN, the trust "+
			"policy of the role and the token's audience", request.URL.Host, role),
		Foreign: fmt.Sprintf("what answers at %s is not an AWS security token service: check AWS_ENDPOINT_URL_STS",
			request.URL.Host),
	})
}

// domain returns the domain of a region's services.
func domain(region string) string {
	if strings.HasPrefix(region, "cn-") {
		return "amazonaws.com.cn"
	}
	return "amazonaws.com"
}
