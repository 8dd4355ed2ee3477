package aws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/renewed"
)

// taskEndpoint is where ECS provides the credentials of a task's role.
const taskEndpoint = "http://169.254.170.2"

// agents are the addresses of ECS and of EKS Pod Identity on each node. Only these, loopback addresses and hosts with
// TLS are asked: the answer is a secret, and so is the token that is sent.
var agents = []string{"169.254.170.2", "169.254.170.23", "fd00:ec2::23"}

// container asks the agent beside the container (EKS Pod Identity, ECS tasks) for credentials.
func (c *Chain) container(ctx context.Context, _ string) (found Credentials, has bool, err error) {
	at := c.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI")
	if relative := c.Getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"); relative != "" {
		at = taskEndpoint + relative
	}
	if at == "" {
		return found, false, nil
	}
	parsed, err := url.Parse(at)
	if err != nil || parsed.Host == "" || !trusted(parsed) {
		return found, false, errors.New("AWS_CONTAINER_CREDENTIALS_FULL_URI is not https:// and no agent of ECS or " +
			"EKS: correct it, or remove it")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return found, false, err
	}
	token := c.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN")
	if file := c.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); file != "" {
		text, err := os.ReadFile(file) // read each time, since it is renewed
		if err != nil {
			return found, false, fmt.Errorf("the token in AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE cannot be read: "+
				"correct the path, or mount the file: %w", err)
		}
		token = strings.TrimSpace(string(text))
	}
	if strings.ContainsAny(token, "\r\n") {
		return found, false, errors.New("the AWS container authorization token has several lines: check its file")
	}
	if token != "" {
		request.Header.Set("Authorization", token)
	}
	return obtain(c.Local, request, json.Unmarshal, renewed.Remedies{
		Away: fmt.Sprintf("the AWS agent for container credentials at %s cannot be reached: check that it runs on the "+
			"node, and network policies", parsed.Host),
		Refused: fmt.Sprintf("the AWS agent for container credentials at %s refuses: associate a role with the pod's "+
			"service account or the task", parsed.Host),
		Foreign: fmt.Sprintf("what answers at %s gives no AWS credentials: check AWS_CONTAINER_CREDENTIALS_FULL_URI",
			parsed.Host),
	})
}

// trusted reports whether a secret may be sent to a URL.
func trusted(at *url.URL) bool {
	if at.Scheme == "https" {
		return true
	}
	host := at.Hostname()
	ip := net.ParseIP(host)
	return at.Scheme == "http" && (slices.Contains(agents, host) || host == "localhost" || ip != nil && ip.IsLoopback())
}
