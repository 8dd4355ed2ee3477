package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/segmentio/kafka-go/sasl"

	"github.com/outbox-relay/outbox-relay/internal/aws"
)

// An AWSKey is an access key of Amazon Web Services. It does not show itself in logs and errors.
type AWSKey = aws.Credentials

// AWSKeys is a source of access keys.
type AWSKeys interface {
	// Credentials returns the access key for requests in a region. It is called at each login. Its error must not show
	// secrets.
	Credentials(ctx context.Context, region string) (AWSKey, error)
	// Refused is called when a broker refuses a login with the key.
	Refused(AWSKey)
}

// mechanismIAM is the mechanism by which Amazon MSK authenticates its users and roles (IAM).
const mechanismIAM = "AWS_MSK_IAM"

// IAM is the mechanism AWS_MSK_IAM (github.com/aws/aws-msk-iam-auth): a request to connect that is signed, written as
// JSON, and not itself sent. kafka-go's module for it brings all of AWS's library.
type IAM struct {
	Keys      AWSKeys
	Region    string // region of the cluster
	UserAgent string
}

// Name implements [sasl.Mechanism].
func (*IAM) Name() string { return mechanismIAM }

// signatureLife is how long a signature may be used. A broker checks it against its own clock.
const signatureLife = 15 * time.Minute

// Start returns the client's only message.
func (m *IAM) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	host := sasl.MetadataFromContext(ctx).Host
	if m.Region == "" {
		return nil, nil, errors.New("no AWS region is given: set AWS_REGION")
	}
	key, err := m.Keys.Credentials(ctx, m.Region)
	if err != nil {
		return nil, nil, err
	}
	signed, err := m.message(ctx, host, key, time.Now())
	if err != nil {
		return nil, nil, err
	}
	message, err := json.Marshal(signed)
	return &tokenSession{report: func() { m.Keys.Refused(key) }}, message, err
}

// message returns the parameters that prove the client's identity. Their names are in lower case.
func (m *IAM) message(ctx context.Context, host string, key AWSKey, at time.Time) (map[string]string, error) {
	address := fmt.Sprintf("https://%s/?Action=kafka-cluster%%3AConnect&X-Amz-Expires=%.0f", host,
		signatureLife.Seconds())
	signed, err := aws.Presign(ctx, key, address, "kafka-cluster", m.Region, at)
	message := map[string]string{"version": "2020_10_22", "host": host, "user-agent": m.UserAgent}
	for name := range signed {
		message[strings.ToLower(name)] = signed.Get(name)
	}
	return message, err
}
