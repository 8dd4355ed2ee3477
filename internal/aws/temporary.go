package aws

import (
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/renewed"
)

// webIdentity exchanges the token that the cluster writes into a file for temporary credentials of a role
// (AssumeRoleWithWebIdentity), as IAM roles for service accounts (EKS) do.
func (c *Chain) webIdentity(ctx context.Context, region, file string) (found Credentials, err error) {
	role := c.Getenv("AWS_ROLE_ARN")
	token, err := read("AWS_WEB_IDENTITY_TOKEN_FILE", file)
	if err != nil {
		return found, err
	}
	form := url.Values{
		"Action": {"AssumeRoleWithWebIdentity"}, "Version": {"2011-06-15"}, "RoleArn": {role},
		"RoleSessionName":  {cmp.Or(c.Getenv("AWS_ROLE_SESSION_NAME"), "outbox-relay")},
		"WebIdentityToken": {token},
	}
	domain := "amazonaws.com"
	if strings.HasPrefix(region, "cn-") {
		domain += ".cn"
	}
	at := cmp.Or(c.Getenv("AWS_ENDPOINT_URL_STS"), c.Getenv("AWS_ENDPOINT_URL"), "https://sts."+region+"."+domain+"/")
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(form.Encode()))
	if err != nil {
		return found, errors.New("AWS_ENDPOINT_URL_STS is not a URL: correct it, or remove it")
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	service := "the AWS security token service at " + request.URL.Host
	return obtain(c.Client, request, xml.Unmarshal, renewed.Remedies{
		Away: service + " cannot be reached: check the network, or set AWS_ENDPOINT_URL_STS to its VPC endpoint",
		Refused: service + " refuses the role " + strconv.Quote(role) + ": check AWS_ROLE_ARN, the trust policy of " +
			"the role and the token's audience",
		Foreign: "no AWS security token service answers at " + request.URL.Host + ": check AWS_ENDPOINT_URL_STS",
	})
}

// taskEndpoint is where ECS provides the credentials of a task's role.
const taskEndpoint = "http://169.254.170.2"

// agents are the hosts that are asked without TLS, besides loopback addresses: ECS and EKS Pod Identity on each node.
// The answer is a secret, and so is the token that is sent.
var agents = []string{"169.254.170.2", "169.254.170.23", "fd00:ec2::23", "localhost"}

// container asks the agent beside the container (EKS Pod Identity, ECS tasks) for credentials.
func (c *Chain) container(ctx context.Context, at string) (found Credentials, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil || request.URL.Scheme != "https" && !ofNode(request.URL) {
		return found, errors.New("AWS_CONTAINER_CREDENTIALS_FULL_URI is not https:// and no agent of ECS or EKS: " +
			"correct it, or remove it")
	}
	token := c.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN")
	if file := c.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); file != "" {
		if token, err = read("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", file); err != nil {
			return found, err
		}
	}
	if token != "" {
		request.Header.Set("Authorization", token)
	}
	agent := "the AWS agent for container credentials at " + request.URL.Host
	return obtain(c.Local, request, json.Unmarshal, renewed.Remedies{
		Away:    agent + " cannot be reached: check that it runs on the node, and network policies",
		Refused: agent + " refuses: associate a role with the pod's service account or the task",
		Foreign: agent + " gives no AWS credentials: check AWS_CONTAINER_CREDENTIALS_FULL_URI",
	})
}

// ofNode reports whether a URL is that of a program on the same node.
func ofNode(at *url.URL) bool {
	ip := net.ParseIP(at.Hostname())
	return at.Scheme == "http" && (slices.Contains(agents, at.Hostname()) || ip != nil && ip.IsLoopback())
}

// read reads the token in a file, each time, since it is renewed there.
func read(variable, path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("the token in %s cannot be read: correct the path, or mount the file: %w", variable, err)
	}
	return strings.TrimSpace(string(text)), nil
}

// obtain sends a request for temporary credentials and decodes the answer.
func obtain(client *http.Client, request *http.Request, decode func([]byte, any) error, says renewed.Remedies) (
	Credentials, error,
) {
	var answer struct {
		Credentials
		Code string `json:"code" xml:"Error>Code"`
	}
	use := func() (string, bool) { return answer.Code, answer.KeyID != "" && answer.Secret != "" }
	err := renewed.Fetch(client, request, decode, &answer, use, says)
	return answer.Credentials, err
}
