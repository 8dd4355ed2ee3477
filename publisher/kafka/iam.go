package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/segmentio/kafka-go/sasl"

	"github.com/outbox-relay/outbox-relay/internal/aws"
)

// An AWSKey is an access key of Amazon Web Services.
type AWSKey struct {
	ID, Secret string
	Token      string // the session's token of a temporary key; empty for a permanent one
	// Refused is called when a broker refuses a login with the key.
	Refused func()
}

// Format keeps secrets out of logs and errors.
func (AWSKey) Format(to fmt.State, _ rune) { _, _ = io.WriteString(to, "[redacted]") }

// AWSKeys returns the access key for requests in a region. It is called at each login. Its error must not show secrets.
type AWSKeys func(ctx context.Context, region string) (AWSKey, error)

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
	key, err := m.Keys(ctx, m.Region)
	if err != nil {
		return nil, nil, err
	}
	signed, err := m.message(ctx, host, key, time.Now())
	if err != nil {
		return nil, nil, err
	}
	message, err := json.Marshal(signed)
	return &tokenSession{report: key.Refused}, message, err
}

// message returns the parameters that prove the client's identity. Their names are in lower case.
func (m *IAM) message(ctx context.Context, host string, key AWSKey, at time.Time) (map[string]string, error) {
	address := fmt.Sprintf("https://%s/?Action=kafka-cluster%%3AConnect&X-Amz-Expires=%.0f", host,
		signatureLife.Seconds())
	credentials := aws.Credentials{KeyID: key.ID, Secret: key.Secret, Token: key.Token}
	signed, err := aws.Presign(ctx, credentials, address, "kafka-cluster", m.Region, at)
	message := map[string]string{"version": "2020_10_22", "host": host, "user-agent": m.UserAgent}
	for name := range signed {
		message[strings.ToLower(name)] = signed.Get(name)
	}
	return message, err
}
