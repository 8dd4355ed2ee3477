package aws

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// maxAnswer bounds how much of an answer is read, in bytes.
const maxAnswer = 1 << 20

// webIdentity exchanges the token that the cluster writes into a file for temporary credentials of a role, as IAM roles
// for service accounts (EKS) do.
func (c *Chain) webIdentity(ctx context.Context, region string) (found Credentials, has bool, err error) {
	file := c.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE")
	if file == "" {
		return found, false, nil
	}
	return c.assume(ctx, region, file, c.Getenv("AWS_ROLE_ARN"), c.Getenv("AWS_ROLE_SESSION_NAME"))
}

// assume asks the security token service for credentials (AssumeRoleWithWebIdentity). The file is read each time, since
// its token is renewed.
func (c *Chain) assume(ctx context.Context, region, file, role, session string) (found Credentials, has bool, err error,
) {
	if role == "" {
		return found, false, errors.New("AWS_WEB_IDENTITY_TOKEN_FILE is set without AWS_ROLE_ARN: set the role as well")
	}
	token, err := os.ReadFile(file)
	if err != nil {
		return found, false, fmt.Errorf("the token in AWS_WEB_IDENTITY_TOKEN_FILE cannot be read: correct the path, or "+
			"mount the file: %w", err)
	}
	form := url.Values{
		"Action": {"AssumeRoleWithWebIdentity"}, "Version": {"2011-06-15"}, "RoleArn": {role},
		"RoleSessionName": {cmp.Or(session, "outbox-relay")}, "WebIdentityToken": {strings.TrimSpace(string(token))},
	}
	at := cmp.Or(c.Getenv("AWS_ENDPOINT_URL_STS"), c.Getenv("AWS_ENDPOINT_URL"),
		"https://sts."+region+"."+domain(region)+"/")
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(form.Encode()))
	if err != nil {
		return found, false, errors.New("AWS_ENDPOINT_URL_STS is not a URL: correct it, or remove it")
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	status, body, err := ask(c.Client, request)
	if err != nil {
		return found, false, fmt.Errorf("the AWS security token service at %s cannot be reached: check the network, or set "+
			"AWS_ENDPOINT_URL_STS to its VPC endpoint: %w", request.URL.Host, err)
	}
	var answer struct {
		KeyID   string    `xml:"AssumeRoleWithWebIdentityResult>Credentials>AccessKeyId"`
		Secret  string    `xml:"AssumeRoleWithWebIdentityResult>Credentials>SecretAccessKey"`
		Token   string    `xml:"AssumeRoleWithWebIdentityResult>Credentials>SessionToken"`
		Expires time.Time `xml:"AssumeRoleWithWebIdentityResult>Credentials>Expiration"`
		Code    string    `xml:"Error>Code"`
	}
	wrong := xml.Unmarshal(body, &answer)
	switch {
	case status != http.StatusOK:
		return found, false, fmt.Errorf("the AWS security token service at %s refuses role %s: check AWS_ROLE_ARN, the "+
			"trust policy of the role and the token's audience: %d %.60q", request.URL.Host, role, status, answer.Code)
	case wrong != nil || answer.KeyID == "" || answer.Secret == "" || answer.Expires.IsZero():
		return found, false, fmt.Errorf("what answers at %s is not an AWS security token service: check AWS_ENDPOINT_URL_STS",
			request.URL.Host)
	}
	return Credentials{KeyID: answer.KeyID, Secret: answer.Secret, Token: answer.Token, Expires: answer.Expires}, true, nil
}

// domain returns the domain of a region's services.
func domain(region string) string {
	if strings.HasPrefix(region, "cn-") {
		return "amazonaws.com.cn"
	}
	return "amazonaws.com"
}

// ask sends a request and returns the answer. Its errors leave out the URL, which may hold a secret.
func ask(client *http.Client, request *http.Request) (status int, body []byte, err error) {
	response, err := client.Do(request)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err
		}
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return response.StatusCode, body, err
}
