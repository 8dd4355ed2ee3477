package kafka

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/segmentio/kafka-go/sasl"

	"github.com/outbox-relay/outbox-relay/internal/aws"
)

// Keys are a source of credentials for AWS_MSK_IAM.
type Keys interface {
	// Credentials is called at each login. Its error must not show secrets.
	Credentials(ctx context.Context, region string) (aws.Credentials, error)
	// Refused is called when a broker refuses a login with the credentials.
	Refused(aws.Credentials)
}

// mechanismIAM is the mechanism by which Amazon MSK authenticates its users and roles (IAM).
const mechanismIAM = "AWS_MSK_IAM"

// IAM returns the mechanism AWS_MSK_IAM (github.com/aws/aws-msk-iam-auth): a request to connect that is signed, written
// as JSON, and not itself sent. If region is empty, the region comes from the broker's name. If the name has none, it
// is otherwise.
func IAM(keys Keys, region, otherwise, userAgent string) sasl.Mechanism {
	return &iam{keys: keys, region: region, otherwise: otherwise, userAgent: userAgent}
}

type iam struct {
	keys                         Keys
	region, otherwise, userAgent string
}

func (*iam) Name() string { return mechanismIAM }

// signatureLife is how long a signature may be used. A broker checks it against its own clock.
const signatureLife = 15 * time.Minute

var errRegion = errors.New("the name of the broker contains no AWS region")

// Start returns the client's only message.
func (m *iam) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	host := sasl.MetadataFromContext(ctx).Host
	region := cmp.Or(m.region, regionOf(host), m.otherwise)
	if region == "" {
		return nil, nil, errRegion
	}
	credentials, err := m.keys.Credentials(ctx, region)
	if err != nil {
		return nil, nil, err
	}
	message, err := json.Marshal(m.message(host, region, credentials, time.Now()))
	return &tokenSession{report: func() { m.keys.Refused(credentials) }, single: true}, message, err
}

// message returns the parameters that prove the client's identity. Their names are in lower case.
func (m *iam) message(host, region string, credentials aws.Credentials, at time.Time) map[string]string {
	const action = "kafka-cluster:Connect"
	signed := aws.Request{
		Host: host, Region: region, Service: "kafka-cluster", Query: url.Values{"Action": {action}}, At: at,
		Life: signatureLife,
	}.Presign(credentials)
	message := map[string]string{"version": "2020_10_22", "host": host, "user-agent": m.userAgent}
	for name := range signed {
		message[strings.ToLower(name)] = signed.Get(name)
	}
	return message
}

// regionOf returns the region in the name of an MSK broker, such as b-1.shop.a1b2c3.c2.kafka.eu-central-1.amazonaws.com
// or boot-a1b2c3.c3.kafka-serverless.eu-central-1.amazonaws.com. It returns "" for other names.
func regionOf(host string) string {
	before, _, found := strings.Cut(host, ".amazonaws.com")
	if !found {
		return ""
	}
	labels := strings.Split(before, ".")
	if n := len(labels); n >= 2 && strings.HasPrefix(labels[n-2], "kafka") {
		return labels[n-1]
	}
	return ""
}
